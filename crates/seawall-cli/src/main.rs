//! The command line of Seawall.

fn main() {}
