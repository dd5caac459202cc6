use strsim::damerau_levenshtein;

use super::error::Problem;

/// `field` is none of `valid`: names the one that is nearest to it.
pub(super) fn unknown(field: String, valid: Vec<String>) -> Problem {
    let beside: Vec<&str> = valid
        .iter()
        .filter(|path| !section(path).is_empty() && section(path) == section(&field))
        .map(|path| leaf(path))
        .collect();
    let beside = nearest_name(leaf(&field), &beside);
    let (distance, mut nearest) = nearest_path(&field, valid);
    let close = distance <= (leaf(&field).chars().count() / 2).max(2);
    if !close && !beside.is_empty() && part(&nearest) != part(&field) {
        // Nothing is like it: then it is about what its section is about.
        nearest = format!("{}.{beside}", section(&field));
    }
    Problem::Unknown {
        field,
        nearest,
        close,
    }
}

/// The name that takes the fewest edits.
pub(super) fn nearest_name(name: &str, valid: &[&str]) -> String {
    valid
        .iter()
        .min_by_key(|candidate| damerau_levenshtein(name, candidate))
        .map_or_else(String::new, |nearest| (*nearest).to_owned())
}

/// The nearest path by whichever takes fewer edits: the whole path, or the last name alone plus
/// one for being in another section. The second finds what is written right but in the wrong
/// place.
fn nearest_path(field: &str, valid: Vec<String>) -> (usize, String) {
    valid
        .into_iter()
        .map(|candidate| {
            let whole = damerau_levenshtein(field, &candidate);
            let moved = usize::from(section(field) != section(&candidate));
            let last = damerau_levenshtein(leaf(field), leaf(&candidate)) + moved;
            ((whole.min(last), moved), candidate)
        })
        .min_by(|(one, _), (other, _)| one.cmp(other))
        .map_or_else(Default::default, |((distance, _), nearest)| {
            (distance, nearest)
        })
}

fn leaf(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, leaf)| leaf)
}

fn part(path: &str) -> &str {
    path.split_once('.').map_or(path, |(part, _)| part)
}

fn section(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(section, _)| section)
}
