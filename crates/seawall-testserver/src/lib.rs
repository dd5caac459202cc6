//! Misbehaving servers for the tests of Seawall.
