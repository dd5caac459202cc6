//! Recorded calls, told step by step, and run again.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use seawall::{
    Abandoned, Action, Answer, Exchange, Fact, Finish, Kind, Note, Question, Settled, Step, Time,
    Trace, duration,
};

use crate::complaint::Complaint;
use crate::exit::Exit;

/// Tells every call of the file. No success when one of them would be decided otherwise today.
pub(super) fn told(path: &Path) -> Result<(String, Exit), Complaint> {
    let traces = read(path)?;
    let (mut text, mut exit) = (String::new(), Exit::SUCCESS);
    for trace in &traces {
        let again = seawall_sim::replay(trace);
        if again != *trace {
            exit = Exit::OTHER;
        }
        let separator = if text.is_empty() { "" } else { "\n" };
        let _ = write!(text, "{separator}{}", story(trace, &again));
    }
    Ok((text, exit))
}

/// Whatever is between the objects; a file for people has them over many lines.
fn read(path: &Path) -> Result<Vec<Trace>, Complaint> {
    let bytes = fs::read(path).map_err(|error| Complaint::file("--trace", path, "read", &error))?;
    let mut traces = Vec::new();
    for value in serde_json::Deserializer::from_slice(&bytes).into_iter::<serde_json::Value>() {
        let value = value.map_err(|error| complaint(path, &error.to_string()))?;
        let trace = serde_path_to_error::deserialize(value).map_err(|error| {
            let field = match error.path().to_string() {
                whole if whole == "." => String::new(),
                field => format!("{field}: "),
            };
            let number = traces.len() + 1;
            complaint(path, &format!("call {number}: {field}{}", error.inner()))
        })?;
        traces.push(trace);
    }
    if traces.is_empty() {
        return Err(complaint(path, "there is none in it"));
    }
    Ok(traces)
}

fn complaint(path: &Path, problem: &str) -> Complaint {
    Complaint::usage(format!(
        "--trace {}: {problem}; a file of `call --trace` is allowed: one JSON object for each call",
        path.display()
    ))
}

fn story(trace: &Trace, again: &Trace) -> String {
    let about = match trace.about.as_str() {
        "" => "a call",
        about => about,
    };
    let request = trace.request;
    let repeatable = match (request.idempotent, request.replayable) {
        (true, true) => "may be repeated",
        (false, _) => "may be repeated only where the server cannot have acted on it",
        (true, false) => "cannot be repeated: its body is gone",
    };
    let nested = if request.nested {
        "; inside another call's attempt"
    } else {
        ""
    };
    let mut text = format!("{about} ({repeatable}{nested}; seed {})\n", trace.seed);
    let clock = Clock { began: trace.began };
    let mut teller = Teller::default();
    for (place, step) in trace.steps.iter().enumerate() {
        if teller.is_worth_a_line(step, &trace.steps[place + 1..]) {
            let lines = clock.lines(step, std::mem::take(&mut teller.pieces));
            teller.tell(&mut text, clock.at(step.at), lines);
        }
    }
    let steps = trace.steps.iter().zip(&again.steps);
    let alike = steps.take_while(|(was, is)| was == is).count();
    match again.steps.get(alike) {
        None if trace == again => text.push_str("Today's engine decides the same.\n"),
        None => text.push_str("Today's engine decides otherwise: it takes fewer steps.\n"),
        Some(step) => {
            let _ = writeln!(
                text,
                "Today's engine decides otherwise, at {}:",
                clock.at(step.at)
            );
            // Up to what it wants done.
            let without = again.steps[alike..]
                .iter()
                .take_while(|step| step.actions.is_empty());
            for step in again.steps[alike..].iter().take(without.count() + 1) {
                for line in clock.lines(step, 0) {
                    let _ = writeln!(text, "{:12}  {line}", "");
                }
            }
        }
    }
    text
}

/// What was told of a call so far.
#[derive(Default)]
struct Teller<'a> {
    ended: Vec<u32>,
    /// What was to be done last.
    doing: Option<&'a Action>,
    /// How many pieces of a body came since the last line.
    pieces: u32,
    at: String,
}

impl<'a> Teller<'a> {
    /// Not that somebody looked and the wait went on, and of a body's pieces the last only.
    fn is_worth_a_line(&mut self, step: &'a Step, rest: &[Step]) -> bool {
        if is_idle(step, self.doing) {
            return false;
        }
        self.doing = step.actions.last();
        match &step.fact {
            Fact::Ended { number, .. } => self.ended.push(*number),
            // Its end, told before, was the news.
            Fact::Progressed { number } if self.ended.contains(number) => {
                return !step.actions.is_empty();
            }
            Fact::Progressed { .. } => {
                self.pieces += 1;
                let next = rest.iter().find(|next| !is_idle(next, self.doing));
                return !(is_progress(step) && next.is_some_and(is_progress));
            }
            _ => {}
        }
        true
    }

    /// A time that is that of the line before is not told again.
    fn tell(&mut self, text: &mut String, at: String, lines: Vec<String>) {
        for (number, line) in lines.iter().enumerate() {
            let at = if number > 0 || at == self.at { "" } else { &at };
            let _ = writeln!(text, "{at:>12}  {line}");
        }
        self.at = at;
    }
}

fn is_idle(step: &Step, doing: Option<&Action>) -> bool {
    step.fact == Fact::Time
        && step.asked.is_empty()
        && step.told.is_empty()
        && step.actions.len() == 1
        && step.actions.last() == doing
}

fn is_progress(step: &Step) -> bool {
    matches!(step.fact, Fact::Progressed { .. })
        && matches!(step.actions[..], [] | [Action::Wait(_)])
}

/// Tells times as the call saw them: from its beginning.
struct Clock {
    began: Time,
}

impl Clock {
    fn at(&self, time: Time) -> String {
        span(time - self.began)
    }

    /// What happened, what was asked, what was to be done.
    fn lines(&self, step: &Step, pieces: u32) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(fact(&step.fact, pieces));
        if !step.asked.is_empty() {
            let asked: Vec<_> = step
                .asked
                .iter()
                .map(|asked| self.exchange(asked, step.at))
                .collect();
            lines.push(format!("guards: {}", asked.join(", ")));
        }
        lines.extend(step.actions.iter().map(|action| self.action(action)));
        if lines.is_empty() {
            lines.push("nothing was to be done".to_owned());
        }
        lines
    }

    fn exchange(&self, exchange: &Exchange, now: Time) -> String {
        let question = match exchange.question {
            Question::LookAhead(time) => &format!("breaker at {}", self.at(time)),
            Question::Cooldown => "cooldown",
            Question::Budget(_) => "budget",
            Question::Throttle(_) => "throttle",
            Question::Look => "breaker",
            Question::Limiter(_) => "rate limit",
            Question::Bulkhead => "bulkhead",
            Question::Permit => "permit",
            Question::HedgeDelay => "hedge delay",
        };
        let answer = match exchange.answer {
            Answer::Free => "free".to_owned(),
            Answer::Granted(_) => "granted".to_owned(),
            Answer::Until(time) if time <= now => "free".to_owned(),
            Answer::Until(time) => format!("not before {}", self.at(time)),
            Answer::After(delay) => span(delay),
            Answer::Queued(_) => "in line".to_owned(),
            Answer::Refused(time) if time.is_never() => "refused".to_owned(),
            Answer::Refused(time) => format!("refused until {}", self.at(time)),
        };
        format!("{question} {answer}")
    }

    fn action(&self, action: &Action) -> String {
        match action {
            Action::Start(start) => {
                let kind = match start.kind {
                    Kind::First => "first",
                    Kind::Retry => "retry",
                    Kind::Hedge => "hedge",
                };
                let until = match start.timeout_at {
                    Time::NEVER => "without a limit".to_owned(),
                    time => format!("until {}", self.at(time)),
                };
                let fresh = if start.fresh_connection {
                    ", by another connection"
                } else {
                    ""
                };
                format!("→ start attempt {} ({kind}), {until}{fresh}", start.number)
            }
            Action::Abandon { number, why } => {
                let why = match why {
                    Abandoned::TimedOut => "its time is up",
                    Abandoned::Deadline => "the deadline has passed",
                    Abandoned::Lost => "it is needed no more",
                    Abandoned::Cancelled => "the caller gave up",
                };
                format!("→ give up attempt {number}: {why}")
            }
            Action::Wait(wait) => {
                let until = match wait.until {
                    Time::NEVER => "→ wait".to_owned(),
                    time => format!("→ wait until {}", self.at(time)),
                };
                let drain = if wait.drain {
                    ", read the answer in hand"
                } else {
                    ""
                };
                let ticket = if wait.ticket == 0 {
                    ""
                } else {
                    ", or for the turn in line"
                };
                format!("{until}{drain}{ticket}")
            }
            Action::Finish(finish) => format!("→ end: {}", ending(finish)),
        }
    }
}

fn fact(fact: &Fact, pieces: u32) -> Option<String> {
    Some(match fact {
        Fact::Time => return None,
        Fact::Cancelled => "the caller gave up".to_owned(),
        Fact::Ended { number, settled } => format!("attempt {number} ended: {}", outcome(settled)),
        Fact::Drained => "the answer in hand was read".to_owned(),
        Fact::Admitted => "its turn came".to_owned(),
        Fact::Progressed { number } => match pieces {
            0 => return None,
            1 => format!("attempt {number}: a piece of its body came"),
            _ => format!("attempt {number}: {pieces} pieces of its body came"),
        },
        Fact::Replayable(true) => "the body can be sent again".to_owned(),
        Fact::Replayable(false) => "the body cannot be sent again".to_owned(),
        Fact::Dropped => "the call was dropped".to_owned(),
    })
}

fn outcome(settled: &Settled) -> String {
    let mut text = match &settled.note {
        Note::None => String::new(),
        Note::Status(status) => format!("{status}, "),
        Note::Error(error) => format!("{error}, "),
    };
    text.push_str(settled.outcome.name());
    if let Some(phase) = settled.outcome.phase() {
        let _ = write!(text, " {}", format!("{phase:?}").to_lowercase());
    }
    if let Some(wait) = settled.hint.wait {
        let _ = write!(text, "; asks to wait {}", duration::format(wait));
    }
    if settled.hint.forbids {
        text.push_str("; forbids another");
    }
    text
}

fn ending(finish: &Finish) -> String {
    match (finish.result, finish.timed_out) {
        (Some(number), _) => format!("{}, with what attempt {number} brought", finish.ending),
        (None, true) => format!("{}, after the last attempt ran out of time", finish.ending),
        (None, false) => format!("{}, with nothing", finish.ending),
    }
}

/// To the microsecond.
fn span(exact: Duration) -> String {
    match exact {
        exact if exact < Duration::from_secs(1) => format!("{:.3} ms", exact.as_secs_f64() * 1e3),
        exact => format!("{:.3} s", exact.as_secs_f64()),
    }
}
