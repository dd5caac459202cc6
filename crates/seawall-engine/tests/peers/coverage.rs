//! Every vector is a test somewhere in the workspace, and every difference is in the docs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::differences::DIFFERENCES;
use crate::{test_name, vectors};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of every test file of the workspace.
fn tests() -> String {
    let mut text = String::new();
    let mut folders: Vec<_> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|each| each.unwrap().path().join("tests"))
        .filter(|path| path.is_dir())
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

/// True for a test of this name, alone or with words of its own after it.
fn has(tests: &str, name: &str) -> bool {
    ["()", "_"]
        .into_iter()
        .any(|after| tests.contains(&format!("fn {name}{after}")))
        // Made by a macro.
        || tests.contains(&format!("{name} = \""))
}

#[test]
fn every_vector_is_a_test_of_its_name() {
    let (vectors, tests) = (vectors(), tests());
    assert_eq!(vectors.len(), 128);
    let missing: Vec<_> = vectors
        .iter()
        .map(|vector| vector["id"].as_str().unwrap())
        .filter(|id| !has(&tests, &test_name(id)))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_difference_is_of_a_vector_of_its_peer_and_listed_once() {
    let peer_of = |id: &str| {
        let vectors = vectors();
        let found = vectors.iter().find(|vector| vector["id"] == id);
        found.map(|vector| vector["system"].as_str().unwrap().to_owned())
    };
    let mut listed = BTreeSet::new();
    for difference in DIFFERENCES {
        let is_new = listed.insert((difference.peer, difference.vector, difference.theirs));
        assert!(is_new, "{} twice", difference.theirs);
        if !difference.vector.is_empty() {
            let peer = peer_of(difference.vector);
            assert_eq!(
                peer.as_deref(),
                Some(difference.peer),
                "{}",
                difference.vector
            );
        }
    }
}

/// With `WRITE_DOCS=1` it writes the list instead.
#[test]
fn the_list_in_the_docs_is_this_one() {
    let path = root().join("docs/peer-differences.md");
    let text = document();
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/peer-differences.md is not up to date: run with WRITE_DOCS=1"
    );
}

fn document() -> String {
    let mut text = String::from(
        "# Where Seawall's answer is not its peer's, on purpose\n\n\
         Their behaviour is known from their own tests, as vectors in `tests/data/peer-vectors.json`; all\n\
         others of the 128 vectors pass. Each row's rule is in [rules.md](rules.md), and our answer to its\n\
         vector is a test of that name. A row without a vector is a behaviour that they document, or that\n\
         is read from their source.\n\n\
         | peer | vector | theirs | ours | rule |\n|---|---|---|---|---|\n",
    );
    for difference in DIFFERENCES {
        let vector = match difference.vector {
            "" => String::new(),
            id => format!("`{id}`"),
        };
        text += &format!(
            "| {} | {vector} | {} | {} | {} |\n",
            difference.peer, difference.theirs, difference.ours, difference.rule
        );
    }
    text
}
