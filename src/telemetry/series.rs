//! From a name of the configuration to the cells of one worker.
//!
//! A name keeps its cells over reloads: the same worker and the same name always meet the same cell, so a counter never
//! goes back. A name that no policy in force holds any more stays visible, so that a rate over the last minutes is right;
//! once more than [`SPARE`] such names have gathered they vanish together, so memory does not grow with reloads.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use super::lock;
use super::metrics::Sums;

/// How many names that nothing holds any more a family keeps.
const SPARE: usize = 64;

/// What is counted for one name.
pub(super) trait Cells: Default {
    /// Adds the cells of one worker to the sums, under `name`.
    fn report(&self, name: &str, sums: &mut Sums);
}

/// The series of one kind of name: of all limits, say.
#[derive(Debug)]
pub(super) struct Family<C> {
    names: Mutex<BTreeMap<Arc<str>, Arc<Series<C>>>>,
}

/// The cells of one name, for each worker that met it.
#[derive(Debug)]
struct Series<C>(Mutex<Vec<Option<Arc<C>>>>);

/// The cells of one name and one worker; while it lives, the name's series stay.
#[derive(Debug)]
pub(super) struct Held<C> {
    cells: Arc<C>,
    /// Counted by [`Family::retire`].
    series: Arc<Series<C>>,
}

impl<C> Default for Family<C> {
    fn default() -> Self {
        Self {
            names: Mutex::default(),
        }
    }
}

impl<C: Cells> Family<C> {
    /// The cells of `name` that `worker` counts in.
    pub(super) fn hold(&self, name: &str, worker: usize) -> Held<C> {
        let mut names = lock(&self.names);
        let series = if let Some(series) = names.get(name) {
            Arc::clone(series)
        } else {
            Self::retire(&mut names);
            let series = Arc::new(Series(Mutex::default()));
            names.insert(name.into(), Arc::clone(&series));
            series
        };
        Held {
            cells: series.of(worker),
            series,
        }
    }

    fn retire(names: &mut BTreeMap<Arc<str>, Arc<Series<C>>>) {
        let unheld = |series: &Arc<Series<C>>| Arc::strong_count(series) == 1;
        if names.values().filter(|series| unheld(series)).count() > SPARE {
            names.retain(|_, series| !unheld(series));
        }
    }

    /// Adds every cell to the sums.
    pub(super) fn report(&self, sums: &mut Sums) {
        for (name, series) in &*lock(&self.names) {
            for cells in lock(&series.0).iter().flatten() {
                cells.report(name, sums);
            }
        }
    }
}

impl<C: Cells> Series<C> {
    fn of(&self, worker: usize) -> Arc<C> {
        let mut workers = lock(&self.0);
        if workers.len() <= worker {
            workers.resize_with(worker + 1, || None);
        }
        match workers.get_mut(worker) {
            Some(cells) => Arc::clone(cells.get_or_insert_default()),
            None => Arc::default(),
        }
    }
}

impl<C> Clone for Held<C> {
    fn clone(&self) -> Self {
        Self {
            cells: Arc::clone(&self.cells),
            series: Arc::clone(&self.series),
        }
    }
}

impl<C> Deref for Held<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.cells
    }
}

/// Numbers for workers; the number of one that ended goes to the next, and with it its cells.
#[derive(Debug, Default)]
pub(super) struct Numbers(Mutex<(usize, Vec<usize>)>);

impl Numbers {
    pub(super) fn take(&self) -> usize {
        let (next, free) = &mut *lock(&self.0);
        free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        })
    }

    pub(super) fn give_back(&self, number: usize) {
        lock(&self.0).1.push(number);
    }
}
