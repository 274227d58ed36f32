//! Series, gaps and the choice of source on small timelines worked out by hand.

use super::*;

fn span(start: f64, end: f64, documents: u64) -> CommandSpan {
    CommandSpan { start, end, documents }
}

fn counter(values: &[(f64, u64)]) -> Vec<CounterSample> {
    values.iter().map(|&(at, value)| CounterSample { at, value }).collect()
}

fn documents(series: &[Second]) -> Vec<f64> {
    series.iter().map(|second| (second.count * 1e6).round() / 1e6).collect()
}

#[test]
fn a_command_is_spread_over_its_time() {
    let series = spread_over_commands(&[span(0.5, 2.5, 200), span(1.0, 1.0, 7)], 2.5);
    assert_eq!(documents(&series), [50.0, 107.0, 50.0]);
    assert!((series[2].length_seconds - 0.5).abs() < 1e-9);
    assert!((series[2].per_second - 100.0).abs() < 1e-9);
}

#[test]
fn a_short_remainder_joins_the_second_before_and_nothing_is_lost() {
    let series = spread_over_commands(&[span(0.0, 3.1, 310)], 3.1);
    assert_eq!(documents(&series), [100.0, 100.0, 110.0]);
    assert!((series[2].per_second - 100.0).abs() < 1e-6);
}

#[test]
fn a_phase_shorter_than_a_second_is_one_bar() {
    let series = spread_over_commands(&[span(0.0, 0.1, 10)], 0.1);
    assert_eq!(series.len(), 1);
    assert!((series[0].per_second - 100.0).abs() < 1e-6);
}

#[test]
fn a_counter_is_interpolated_and_scaled() {
    let samples = counter(&[(0.0, 1000), (0.5, 1100), (1.5, 1200), (2.0, 1200)]);
    assert_eq!(documents(&from_counter(&samples, 200, 2.0)), [150.0, 50.0]);
    assert_eq!(documents(&from_counter(&samples, 400, 2.0)), [300.0, 100.0]);
}

#[test]
fn gaps_are_between_rises() {
    let samples = counter(&[(0.0, 0), (0.25, 5), (0.5, 5), (0.75, 5), (1.0, 6), (1.25, 7)]);
    assert_eq!(longest_gap_of_counter(&samples, 1.25), Gap { start: 0.25, seconds: 0.75 });
    assert_eq!(longest_gap_of_counter(&[], 0.0), Gap::default());
}

#[test]
fn a_counter_that_moves_only_at_the_end_of_commands_is_not_used() {
    let spans = [span(0.0, 1.1, 100), span(1.1, 2.1, 100)];
    let stepping = counter(&[(0.0, 0), (0.5, 0), (1.0, 0), (1.5, 100), (2.0, 100), (2.5, 200)]);
    let moving = counter(&[(0.0, 0), (0.5, 50), (1.0, 100), (1.5, 150), (2.0, 200), (2.5, 200)]);
    assert_eq!(choose_source(&moving, &[], &spans, 200), ThroughputSource::ServerDocumentCounter);
    assert_eq!(choose_source(&stepping, &moving, &spans, 200), ThroughputSource::ServerTransactionCounter);
    assert_eq!(choose_source(&stepping, &stepping, &spans, 200), ThroughputSource::SpreadOverCommands);
    assert_eq!(choose_source(&[], &[], &spans, 200), ThroughputSource::SpreadOverCommands);
}

#[test]
fn a_counter_that_counts_something_else_is_not_used() {
    let spans = [span(0.0, 1.1, 1000)];
    let unrelated = counter(&[(0.0, 0), (0.5, 3), (1.0, 5)]);
    assert!(!moves_within_commands(&unrelated, &spans, 1000));
}
