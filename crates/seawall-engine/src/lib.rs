//! The decision engine of Seawall.
//!
//! Nothing in here reads a clock, sleeps, spawns or touches a socket: every method takes the
//! present [`Time`] as an argument and says what to do next. So the async driver, the blocking
//! driver, the HTTP client and the simulator all run the very same decisions, and a test runs an
//! hour-long outage in microseconds.

#![forbid(unsafe_code)]

pub mod duration;

mod backoff;
mod breaker;
mod budget;
mod bulkhead;
mod call;
mod draw;
mod ending;
mod guard;
mod guards;
mod histogram;
mod invalid;
mod key_scope;
mod limiter;
mod outcome;
mod policy;
mod registry;
mod report;
mod ring;
mod sync;
mod throttle;
mod time;
mod trace;

pub use backoff::{Backoff, Growth, Jitter};
pub use breaker::{
    Admission, Breaker, BreakerCounts, BreakerRules, BreakerSettings, Held, Permit, Refusal, State,
    ThrottledAs, Transition, Verdict, WindowSize,
};
pub use budget::{Budget, BudgetKind, BudgetSettings};
pub use bulkhead::{Bulkhead, BulkheadSettings, Entry, Place, Ticket};
pub use call::{Abandoned, Action, Call, Finish, Hint, Request, Settled, Start, Wait};
pub use draw::Draws;
pub use ending::Ending;
pub use guard::{Answer, Failure, Guard, Notice, Question, Unguarded};
pub use guards::{BreakerView, BudgetView, Guards, KeyBreaker, KeyGuards, KeyView};
pub use histogram::{LatencyHistogram, RecentQuantile};
pub use invalid::Invalid;
pub use key_scope::KeyScope;
pub use limiter::{Limiter, LimiterSettings, RateLimited, Reservation, TooLarge};
pub use outcome::{Outcome, Phase};
pub use policy::{
    Announce, HedgeDelay, HedgeSettings, KeySettings, KeySyntax, MaxAttempts, Over, Policy,
    PolicyBuilder, RetryAfter, Settings, Share, Size, Statuses,
};
pub use registry::{Keyed, Registry};
pub use report::{Kind, Note, Record, Report, WaitReason};
pub use throttle::{Throttle, ThrottleSettings};
pub use time::Time;
pub use trace::{Exchange, Fact, Step, Trace};
