use std::fs::File;
use std::io::{self, Write};

use seawall::Client;

use super::ended::Ended;
use super::output::{Leftover, Output};
use super::request::Template;
use super::summary::Summary;
use super::timeline::Timeline;
use super::{CallOptions, ReportFormat, json, story, summary};
use crate::complaint::Complaint;
use crate::exit::Exit;
use crate::terminal::say;

/// Tells of calls as they end: the report, the body, and a summary at last.
#[derive(Debug)]
pub(super) struct Writer {
    count: u64,
    client: Client,
    format: ReportFormat,
    report: Option<File>,
    output: Output,
    timeline: Option<Timeline>,
    summary: Summary,
}

/// Creates the report file, before anything is sent.
pub(super) fn report_file(options: &CallOptions) -> Result<Option<File>, Complaint> {
    let Some(path) = options.report_file.as_deref() else {
        return Ok(None);
    };
    File::create(path)
        .map(Some)
        .map_err(|error| Complaint::file("--report-file", path, "written", &error))
}

impl Writer {
    pub(super) fn new(
        options: &CallOptions,
        client: &Client,
        format: ReportFormat,
        report: Option<File>,
        output: Output,
        timeline: Option<Timeline>,
    ) -> Self {
        Self {
            count: options.count,
            client: client.clone(),
            format,
            report,
            output,
            timeline,
            summary: Summary::new(),
        }
    }

    pub(super) fn leftover(&self) -> Leftover {
        self.output.leftover()
    }

    /// Tells of a call, and writes its body.
    pub(super) fn write(&mut self, template: &Template, ended: Ended) -> Result<(), Complaint> {
        self.summary.add(&ended);
        if self.count == 1 {
            self.stop_timeline();
        }
        if let Some(timeline) = &self.timeline {
            timeline.ended(self.summary.ok(), self.summary.calls());
        }
        self.tell(template, &ended)?;
        let exit = ended.exit();
        let Ok(response) = ended.result else {
            return Ok(());
        };
        if self.format != ReportFormat::None && template.cannot_follow(response.status()) {
            self.show(
                "seawall: the redirect was not followed: a body of more than 1 MiB is sent while \
                 it is read, and goes to no other place\n",
            );
        }
        let output = &mut self.output;
        let written = match &self.timeline {
            Some(timeline) => timeline.aside(|| output.write(response)),
            None => output.write(response),
        };
        written.map_err(|complaint| match exit {
            Exit::SUCCESS => complaint,
            // What was wrong with the call itself goes first.
            exit => complaint.with_exit(exit),
        })
    }

    /// Gives the output its name, sums up, and tells how the process ends.
    pub(super) fn finish(mut self, interrupted: Option<Exit>) -> Result<Exit, Complaint> {
        self.stop_timeline();
        if self.count > 1 && self.format != ReportFormat::None {
            say(format_args!("{}", self.summary));
            for view in self.client.guards().keys(self.summary.ended_at()) {
                summary::say_breakers(&view);
            }
        }
        match interrupted {
            Some(exit) if self.summary.cancelled() || self.summary.calls() < self.count => {
                self.output.leftover().remove();
                return Ok(exit);
            }
            _ => {}
        }
        self.output.finish()?;
        Ok(self.summary.exit())
    }

    fn tell(&mut self, template: &Template, ended: &Ended) -> Result<(), Complaint> {
        let exit = ended.exit();
        let line = match self.format {
            ReportFormat::Json => Some(
                json::line(template, ended)
                    .map_err(|error| Complaint::other(format!("the report: {error}")))?,
            ),
            ReportFormat::Text => Some(self.text(template, ended)),
            ReportFormat::None => None,
        };
        match (&mut self.report, &line) {
            (Some(file), Some(line)) => file.write_all(line.as_bytes()).map_err(|error| {
                Complaint::other(format!("--report-file: cannot be written: {error}"))
            })?,
            (None, Some(line)) => self.show(line),
            (_, None) => {}
        }
        // A failure is never silent: where no report says so on stderr, a line does.
        let told = self.report.is_none() && line.is_some();
        if !told && self.count == 1 && (exit != Exit::SUCCESS || self.report.is_some()) {
            self.show(&format!("seawall: {}\n", story::line(template, ended)));
        }
        Ok(())
    }

    /// A line, and the attempts where there is more to say of them. In a file that is all of them;
    /// of many calls on stderr only those that did not go smoothly are told.
    fn text(&self, template: &Template, ended: &Ended) -> String {
        let report = ended.report();
        let smooth = ended.exit() == Exit::SUCCESS && report.attempts_sent() == 1;
        let line = story::line(template, ended);
        match (self.count, self.report.is_some()) {
            (1, false) if smooth => format!("{line}\n"),
            (1, _) => format!("{line}\n{}", story::attempts(report)),
            (_, true) => format!("#{} {line}\n{}", ended.number, story::attempts(report)),
            (_, false) if smooth => String::new(),
            (_, false) => format!("#{} {line}\n", ended.number),
        }
    }

    fn stop_timeline(&mut self) {
        if let Some(timeline) = self.timeline.take() {
            timeline.finish();
        }
    }

    fn show(&self, text: &str) {
        match &self.timeline {
            Some(timeline) => timeline.aside(|| print(text)),
            None => print(text),
        }
    }
}

/// To stderr, in one piece. A reader that is gone is no reason to fail.
fn print(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
