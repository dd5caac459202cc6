//! What a search did not get to before it was stopped is not known, and not made up.

use seawall_sim::{
    Arrivals, Control, Crew, Fleet, Law, Model, Server, bisect, collapse_probability, phase_diagram,
};

fn world(load: f64) -> (Model, Crew) {
    let fleet = Fleet::new(1, Arrivals::poisson(load));
    let model = Model::new(60.0, fleet, Server::new(1, Law::constant(0.001)));
    (model, Crew::new(seawall::Policy::default()))
}

#[test]
fn cells_that_were_not_run_to_their_end_are_no_numbers() {
    let control = Control::default();
    let stops = |load: f64, _: f64| {
        if load > 100.0 {
            control.stop();
        }
        world(load)
    };
    let map = phase_diagram(&[10.0, 900.0], &[1.0], stops, 1, 3, &control).unwrap();
    assert!(map.collapsed[0][1].is_nan(), "{map}");
    assert!(map.to_string().contains("blank: stopped"), "{map}");
    let whole = Control::default();
    let map = phase_diagram(&[10.0], &[1.0], |load, _| world(load), 1, 3, &whole).unwrap();
    assert_eq!(map.collapsed, [[0.0]]);
    assert!(!map.to_string().contains("blank"), "{map}");
}

#[test]
fn searches_and_shares_without_an_answer_have_none() {
    let control = Control::default();
    let found = bisect(0.0, 8.0, 0.5, &control, |middle| {
        if middle > 5.0 {
            control.stop();
        }
        Ok(Some(false))
    });
    assert_eq!(found, Ok(None));
    let (model, crew) = world(10.0);
    assert_eq!(
        collapse_probability(&model, &crew, 1, 4, &control),
        Ok(None)
    );
    let control = Control::default();
    assert_eq!(
        collapse_probability(&model, &crew, 1, 4, &control),
        Ok(Some(0.0))
    );
    let found = bisect(0.0, 8.0, 0.5, &control, |middle| Ok(Some(middle > 5.0)));
    assert_eq!(found, Ok(Some(5.25)));
}
