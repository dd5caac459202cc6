use http::Response;
use seawall::{Error, Report, ReportExt as _};

use super::spool::Spool;
use crate::exit::Exit;

/// A call that is over.
#[derive(Debug)]
pub(super) struct Ended {
    /// 1 for the call that started first.
    pub(super) number: u64,
    pub(super) key: Option<String>,
    pub(super) result: Result<Response<Spool>, Error>,
}

impl Ended {
    pub(super) fn report(&self) -> &Report {
        match &self.result {
            Ok(response) => response.report(),
            Err(error) => error.report(),
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match &self.result {
            Ok(response) => Exit::of_status(response.status()),
            Err(error) => Exit::of_error(error),
        }
    }
}
