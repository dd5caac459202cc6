//! An outcome as one JSON object.

use serde_json::{Map, Number, Value, json};

use crate::experiment::{CaseOutcome, Outcome};
use crate::measure::Scalar;

impl Outcome {
    /// `{"scenario", "seed", "runs", "parameters", "results": [{"label", "runs", "scalars",
    /// "series", "verdict"}]}`; scalars with their unit in the name, and `_sd` beside each mean
    /// where there are several runs. A phase diagram is in `map`: `{"loads_per_s", "triggers_s",
    /// "collapsed_ratio"}`, a row for each trigger.
    pub fn to_json(&self) -> Value {
        let parameters: Map<String, Value> = self
            .parameters
            .iter()
            .map(|(name, value)| (name.clone(), number(*value)))
            .collect();
        json!({
            "scenario": self.scenario,
            "about": self.about,
            "seed": self.seed,
            "runs": self.runs,
            "stopped": self.stopped,
            "parameters": parameters,
            "results": self.results.iter().map(CaseOutcome::to_json).collect::<Vec<_>>(),
        })
    }
}

impl CaseOutcome {
    fn to_json(&self) -> Value {
        let mut scalars = Map::new();
        for summary in &self.scalars {
            let value = match summary.mean {
                Scalar::Number(value) => number(value),
                Scalar::Flag(flag) => Value::Bool(flag),
                Scalar::Never => Value::Null,
            };
            scalars.insert(summary.name.clone(), value);
            if let Some(sd) = summary.sd {
                scalars.insert(format!("{}_sd", summary.name), number(sd));
            }
        }
        let series: Map<String, Value> = self
            .series
            .iter()
            .map(|series| (series.name.to_owned(), numbers(&series.values)))
            .collect();
        let mut all = json!({
            "label": self.label,
            "runs": self.runs,
            "scalars": scalars,
            "series": series,
            "verdict": self.verdict,
        });
        if let Some(map) = &self.map {
            all["map"] = json!({
                "loads_per_s": numbers(&map.loads),
                "triggers_s": numbers(&map.triggers),
                "collapsed_ratio": map.collapsed.iter().map(|row| numbers(row)).collect::<Value>(),
            });
        }
        all
    }
}

fn numbers(values: &[f64]) -> Value {
    values.iter().map(|&value| number(value)).collect()
}

/// A whole number without a point; null for what is no number.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Value::Number(Number::from(value as i64));
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
