use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;

use crate::complaint::Complaint;

/// The body that `given` means, byte for byte: the text itself, the content of `@FILE`, or stdin
/// to its end for `@-`.
pub(super) async fn read(option: &'static str, given: &OsStr) -> Result<Bytes, Complaint> {
    let bytes = given.as_encoded_bytes();
    let Some(name) = bytes.strip_prefix(b"@") else {
        return Ok(Bytes::copy_from_slice(bytes));
    };
    let from_stdin = name == b"-";
    let name = given.to_owned();
    // On a thread of its own: a pipe may be silent for long, and Ctrl-C must be heard.
    let reading = tokio::task::spawn_blocking(move || {
        let mut content = Vec::new();
        if from_stdin {
            std::io::stdin().lock().read_to_end(&mut content)?;
            return Ok(content);
        }
        std::fs::read(path(&name))
    });
    match reading.await {
        Ok(Ok(content)) => Ok(content.into()),
        Ok(Err(error)) if from_stdin => {
            Err(Complaint::file(option, Path::new("@-"), "read", &error))
        }
        Ok(Err(error)) => Err(Complaint::file(option, Path::new(given), "read", &error)),
        Err(error) => Err(Complaint::other(format!("{option}: {error}"))),
    }
}

/// The path after the `@`.
#[cfg(unix)]
fn path(given: &OsStr) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(&given.as_bytes()[1..]).into()
}

/// The path after the `@`.
#[cfg(not(unix))]
fn path(given: &OsStr) -> std::path::PathBuf {
    given.to_string_lossy()[1..].into()
}
