//! A tower layer that remembers an `Idempotency-Key`.
