use seawall_engine::{Budget, BudgetKind, Growth, Policy, Time};
use toml::Table;

use super::error::{ConfigError, Problem};

/// Writes the whole policy as a policy file: every field, in the order and form of P5.
///
/// Read back it is equal.
///
/// # Errors
///
/// When the policy has a part that exists only in code (a backoff that is a function), or a
/// number above the largest that TOML has.
///
/// ```
/// use seawall::config::{Format, PolicyFile, to_toml};
/// use seawall_engine::Policy;
///
/// let text = to_toml(&Policy::default())?;
/// assert!(text.starts_with("[defaults]\nmax_attempts = 3\n"));
/// assert_eq!(PolicyFile::parse(&text, Format::Toml)?.policy(), &Policy::default());
/// # Ok::<(), seawall::config::ConfigError>(())
/// ```
pub fn to_toml(policy: &Policy) -> Result<String, ConfigError> {
    let fields = tree(policy).map_err(|problem| ConfigError::new("policy", problem))?;
    let mut text = String::from("[defaults]\n");
    for (name, value) in &fields {
        text.push_str(&format!("{name} = {value}"));
        if name == "budget"
            && let Some(note) = derived(policy)
        {
            text.push_str(&note);
        }
        text.push('\n');
    }
    Ok(text)
}

/// The settings as a tree of values, the fields in their own order.
pub(super) fn tree(policy: &Policy) -> Result<Table, Problem> {
    if policy.backoff.kind == Growth::Custom {
        return Err(Problem::OnlyInCode {
            field: "backoff".into(),
        });
    }
    Table::try_from(policy.settings()).map_err(|error| Problem::Unfit {
        field: String::new(),
        message: format!("the policy cannot be written: {error}"),
    })
}

/// What follows from other fields while it is not set: written down it would be set, and no
/// longer follow them.
fn derived(policy: &Policy) -> Option<String> {
    let budget = policy.budget.as_ref()?;
    let BudgetKind::Ratio {
        burst: None,
        initial,
        ..
    } = budget.kind
    else {
        return None;
    };
    let mut full = budget.clone();
    if let BudgetKind::Ratio { initial, .. } = &mut full.kind {
        *initial = None;
    }
    let burst = Budget::new(&full, policy.max_attempts.limited(), Time::ZERO).level(Time::ZERO);
    let burst = burst / 1_000;
    Some(match initial {
        None => format!("  # burst = {burst} and initial = {burst} follow from max_attempts"),
        Some(_) => format!("  # burst = {burst} follows from max_attempts"),
    })
}
