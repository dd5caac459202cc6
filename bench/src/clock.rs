//! The clock of rows that hand the time in: the CPU's counter where there is one, as Seawall's
//! drivers read it.

use seawall_engine::Time;

#[derive(Clone)]
pub struct Clock {
    counter: quanta::Clock,
    origin: u64,
}

impl Clock {
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let origin = counter.raw();
        Self { counter, origin }
    }

    #[inline]
    pub fn now(&self) -> Time {
        Time::from_nanos(self.counter.delta_as_nanos(self.origin, self.counter.raw()))
    }
}
