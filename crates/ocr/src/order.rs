//! The order of reading: columns from left to right, in each of them rows from above.

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
}

impl Place {
    fn height(&self) -> f32 {
        self.bottom - self.top
    }
}

/// A column of text is at least this many times as wide as its lines are high: cells of tables are not.
const WIDE: f32 = 8.0;

/// Indexes of lines in the order in which they are read, by their left, upper, right and lower side, which is counted
/// from above: columns one after the other, in each of them rows. For whoever knows lines from elsewhere.
pub fn reading_order(places: &[[f32; 4]]) -> Vec<usize> {
    let place = |it: &[f32; 4]| {
        let [left, top, right, bottom] = *it;
        Place { left, top, right, bottom }
    };
    of(&places.iter().map(place).collect::<Vec<_>>())
}

/// Indexes of lines in the order in which they are read.
pub(crate) fn of(places: &[Place]) -> Vec<usize> {
    let mut order = Vec::with_capacity(places.len());
    let mut all: Vec<usize> = (0..places.len()).collect();
    let mut heights: Vec<f32> = places.iter().map(Place::height).collect();
    heights.sort_by(f32::total_cmp);
    let height = heights.get(heights.len() / 2).copied().unwrap_or(0.0);
    // A page is cut a few times; a page of noise is not cut into single points.
    const DEEPEST: u32 = 8;
    cut(places, &mut all, height, DEEPEST, &mut order);
    order
}

/// Cuts at gaps that go through all: between columns first, then between what stands above each other.
fn cut(places: &[Place], some: &mut [usize], height: f32, depth: u32, order: &mut Vec<usize>) {
    if depth > 0 && some.len() > 1 {
        if let Some(at) = columns(places, some, height) {
            some.sort_by(|a, b| places[*a].left.total_cmp(&places[*b].left));
            let (left, right) = some.split_at_mut(at);
            cut(places, left, height, depth - 1, order);
            cut(places, right, height, depth - 1, order);
            return;
        }
        if let Some(at) = stripes(places, some, height) {
            let (above, below) = some.split_at_mut(at);
            // A cut that does not part columns would only be a row more.
            if columns(places, above, height).or(columns(places, below, height)).is_some() {
                cut(places, above, height, depth - 1, order);
                cut(places, below, height, depth - 1, order);
                return;
            }
        }
    }
    rows(places, some, order);
}

/// Where two columns part: sorted by their left side, the number of lines of the first.
fn columns(places: &[Place], some: &[usize], height: f32) -> Option<usize> {
    let mut sorted = some.to_vec();
    sorted.sort_by(|a, b| places[*a].left.total_cmp(&places[*b].left));
    let mut end = f32::NEG_INFINITY;
    for (at, index) in sorted.iter().enumerate() {
        let place = &places[*index];
        if at >= 3 && sorted.len() - at >= 3 && place.left - end > height * 0.8 {
            let wide = |part: &[usize]| {
                let mut widths: Vec<f32> =
                    part.iter().map(|it| places[*it].right - places[*it].left).collect();
                widths.sort_by(f32::total_cmp);
                widths[widths.len() / 2] > height * WIDE
            };
            if wide(&sorted[..at]) && wide(&sorted[at..]) {
                return Some(at);
            }
        }
        end = end.max(place.right);
    }
    None
}

/// Where the widest stripe without text is: sorted by their upper side, the number of lines above it.
fn stripes(places: &[Place], some: &mut [usize], height: f32) -> Option<usize> {
    some.sort_by(|a, b| places[*a].top.total_cmp(&places[*b].top));
    let mut end = f32::NEG_INFINITY;
    let mut best: Option<(f32, usize)> = None;
    for (at, index) in some.iter().enumerate() {
        let gap = places[*index].top - end;
        if at > 0 && gap > height * 0.3 && best.is_none_or(|it| gap > it.0) {
            best = Some((gap, at));
        }
        end = end.max(places[*index].bottom);
    }
    best.map(|it| it.1)
}

/// Rows from above, each from the left: what overlaps by half of its height stands in one row.
fn rows(places: &[Place], some: &[usize], order: &mut Vec<usize>) {
    let mut sorted = some.to_vec();
    sorted.sort_by(|a, b| {
        let middle = |it: &usize| places[*it].top + places[*it].bottom;
        middle(a).total_cmp(&middle(b))
    });
    let mut row: Vec<usize> = Vec::new();
    for index in sorted {
        let new = row.first().is_some_and(|first| {
            let (first, this) = (&places[*first], &places[index]);
            let overlap = first.bottom.min(this.bottom) - first.top.max(this.top);
            overlap < first.height().min(this.height()) / 2.0
        });
        if new {
            finish(places, &mut row, order);
        }
        row.push(index);
    }
    finish(places, &mut row, order);
}

fn finish(places: &[Place], row: &mut Vec<usize>, order: &mut Vec<usize>) {
    row.sort_by(|a, b| places[*a].left.total_cmp(&places[*b].left));
    order.append(row);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(left: f32, top: f32, right: f32) -> Place {
        Place { left, top, right, bottom: top + 10.0 }
    }

    #[test]
    fn columns_are_read_one_after_the_other_below_a_title() {
        let mut places = vec![place(20.0, 0.0, 380.0)];
        for row in 0..5 {
            places.push(place(210.0, 40.0 + row as f32 * 14.0, 390.0));
            places.push(place(10.0, 41.0 + row as f32 * 14.0, 190.0));
        }
        assert_eq!(of(&places), [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9]);
        let sides: Vec<[f32; 4]> =
            places.iter().map(|it| [it.left, it.top, it.right, it.bottom]).collect();
        assert_eq!(reading_order(&sides), of(&places));
    }

    #[test]
    fn rows_of_a_table_stay_rows() {
        let mut places = Vec::new();
        for row in 0..5 {
            places.push(place(300.0, row as f32 * 20.0, 340.0));
            places.push(place(10.0, row as f32 * 20.0 + 1.0, 60.0));
        }
        assert_eq!(of(&places), [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]);
        assert!(of(&[]).is_empty());
    }
}
