use seawall_engine::Invalid;

/// A number of a scenario that can be set, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, with the unit in it.
    pub name: &'static str,
    /// What it is unless set.
    pub default: f64,
    /// The least it can be.
    pub least: f64,
    /// The most it can be.
    pub most: f64,
    /// Of a number of things: without a fraction.
    pub whole: bool,
    /// What it means.
    pub about: &'static str,
}

/// The parameters of a scenario, set.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    known: &'static [Parameter],
    values: Vec<f64>,
}

pub(super) const fn parameter(
    name: &'static str,
    default: f64,
    least: f64,
    most: f64,
    about: &'static str,
) -> Parameter {
    Parameter {
        name,
        default,
        least,
        most,
        whole: false,
        about,
    }
}

/// A parameter that counts things.
pub(super) const fn count(
    name: &'static str,
    default: f64,
    least: f64,
    most: f64,
    about: &'static str,
) -> Parameter {
    Parameter {
        whole: true,
        ..parameter(name, default, least, most, about)
    }
}

impl Parameters {
    pub(super) fn new(known: &'static [Parameter]) -> Self {
        Self {
            known,
            values: known.iter().map(|parameter| parameter.default).collect(),
        }
    }

    /// Sets one.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when there is none of that name, or the value is out of its bounds.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), Invalid> {
        let Some(at) = self
            .known
            .iter()
            .position(|parameter| parameter.name == name)
        else {
            let names: Vec<_> = self.known.iter().map(|parameter| parameter.name).collect();
            let allowed = match names.as_slice() {
                [] => "left out: the scenario has no parameters".into(),
                names => format!("one of {}", names.join(", ")),
            };
            return Err(Invalid::new("parameter", name, allowed));
        };
        let bounds = &self.known[at];
        if !(bounds.least..=bounds.most).contains(&value) {
            let allowed = format!("from {} to {}", bounds.least, bounds.most);
            return Err(Invalid::new(bounds.name, value, allowed));
        }
        if bounds.whole && value.fract() != 0.0 {
            return Err(Invalid::new(bounds.name, value, "a whole number"));
        }
        self.values[at] = value;
        Ok(())
    }

    /// The same, written `name=value`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] when it is not written so, and as for [`set`](Self::set).
    pub fn assign(&mut self, text: &str) -> Result<(), Invalid> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(Invalid::new("parameter", text, "written NAME=VALUE"));
        };
        match value.trim().parse() {
            Ok(number) => self.set(name.trim(), number),
            Err(_) => Err(Invalid::new(name.trim().to_owned(), value, "a number")),
        }
    }

    /// The value of one; those of the scenario's own list are all there.
    pub fn value(&self, name: &str) -> f64 {
        self.known
            .iter()
            .position(|parameter| parameter.name == name)
            .map_or(f64::NAN, |at| self.values[at])
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.known
            .iter()
            .zip(&self.values)
            .map(|(parameter, value)| (parameter.name, *value))
    }

    /// True if there is one of that name.
    pub fn has(&self, name: &str) -> bool {
        self.known.iter().any(|parameter| parameter.name == name)
    }
}
