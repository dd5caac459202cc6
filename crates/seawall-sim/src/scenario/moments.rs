//! Arrival times from a file, as a log gives them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seawall_engine::Invalid;

/// The most moments that a file may have: 16 bytes each, twice while they are read.
const MOST: usize = 20_000_000;
/// The most bytes of a line.
const LONGEST: u64 = 1_000;

/// Reads one number of seconds a line; empty lines, and what follows a `#`, are left out.
///
/// They must be in order. A log that is not would be one of something else (ends, say, instead of
/// beginnings), so it is refused rather than sorted.
pub(super) fn read(path: &Path) -> Result<Arc<[Duration]>, Invalid> {
    let unreadable = |error: std::io::Error| {
        Invalid::new(
            path.display().to_string(),
            format!("not readable ({error})"),
            "a file of arrival times",
        )
    };
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    let mut moments = Vec::new();
    let mut latest = Duration::ZERO;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = reader
            .by_ref()
            .take(LONGEST + 1)
            .read_until(b'\n', &mut line)
            .map_err(unreadable)?;
        if read == 0 {
            break;
        }
        let refused = |was: String, allowed: String| {
            let field = format!("{} line {number}", path.display());
            Err(Invalid::new(field, was, allowed))
        };
        if line.len() as u64 > LONGEST {
            return refused(
                format!("longer than {LONGEST} bytes"),
                "one arrival time in seconds".into(),
            );
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let moment = text
            .parse()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some(moment) = moment else {
            return refused(
                text.to_owned(),
                "one arrival time in seconds since the start, a number of at least 0".into(),
            );
        };
        if moment < latest {
            let allowed = format!("in order: not before the {} above", latest.as_secs_f64());
            return refused(text.to_owned(), allowed);
        }
        if moments.len() == MOST {
            return refused("one arrival more".into(), format!("within {MOST} of them"));
        }
        latest = moment;
        moments.push(moment);
    }
    if moments.is_empty() {
        return Err(Invalid::new(
            path.display().to_string(),
            "without any arrival time",
            "at least one line with a number of seconds",
        ));
    }
    Ok(moments.into())
}
