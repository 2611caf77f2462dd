//! Boxes around text: what the first network says of every point, made into rectangles.

/// Points that are text with at least this probability belong to a line.
const THRESHOLD: f32 = 0.3;

/// Boxes are believed from this mean probability on.
const BELIEVED: f32 = 0.5;

/// How far a box grows: its area times this, by its circumference. The network is trained to see the kernel of a line.
const GROWTH: f32 = 1.6;

/// Smaller ones are specks.
const SMALLEST_SIDE: f32 = 3.0;

/// Most boxes of a page.
const MOST_BOXES: usize = 2000;

/// Corners of a line: left above, right above, right below, left below.
pub(crate) type Corners = [[f32; 2]; 4];

/// A map of probabilities.
pub(crate) struct Map<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) values: &'a [f32],
}

impl Map<'_> {
    fn at(&self, x: usize, y: usize) -> f32 {
        self.values[y * self.width + x]
    }

    /// Where text is, grown by a point to the right and below, so that broken letters hold together.
    fn mask(&self) -> Vec<bool> {
        let mut mask = vec![false; self.width * self.height];
        for y in 0..self.height {
            for x in 0..self.width {
                if self.at(x, y) > THRESHOLD {
                    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                        if x + dx < self.width && y + dy < self.height {
                            mask[(y + dy) * self.width + x + dx] = true;
                        }
                    }
                }
            }
        }
        mask
    }

    /// Mean probability of the points in a rectangle.
    fn mean(&self, corners: &Corners) -> f32 {
        let bound = |axis: usize, most: usize| {
            let values = corners.map(|it| it[axis]);
            let low = values.iter().copied().fold(f32::INFINITY, f32::min).floor();
            let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max).ceil();
            let last = (most - 1) as f32;
            (low.clamp(0.0, last) as usize, high.clamp(0.0, last) as usize)
        };
        let ((left, right), (top, bottom)) = (bound(0, self.width), bound(1, self.height));
        let (mut sum, mut count) = (0.0, 0_u32);
        for y in top..=bottom {
            for x in left..=right {
                if contains(corners, x as f32, y as f32) {
                    sum += self.at(x, y);
                    count += 1;
                }
            }
        }
        if count == 0 { 0.0 } else { sum / count as f32 }
    }
}

/// Whether a point is in a rectangle whose corners go round with the clock.
fn contains(corners: &Corners, x: f32, y: f32) -> bool {
    (0..4).all(|index| {
        let ([ax, ay], [bx, by]) = (corners[index], corners[(index + 1) % 4]);
        (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= -1.0
    })
}

/// The lines of a page, in points of the map.
pub(crate) fn find(map: &Map<'_>) -> Vec<Corners> {
    let mut mask = map.mask();
    let mut found = Vec::new();
    for start in 0..mask.len() {
        if !mask[start] || found.len() >= MOST_BOXES {
            continue;
        }
        let outline = outline(&mut mask, map.width, start);
        let (corners, short) = smallest_rectangle(&hull(outline));
        if short < SMALLEST_SIDE || map.mean(&corners) < BELIEVED {
            continue;
        }
        let grown = grown(&corners);
        if sides(&grown).1 >= SMALLEST_SIDE + 2.0 {
            found.push(grown);
        }
    }
    found
}

/// Takes what hangs together with a point out of the mask; the leftmost and rightmost points of its rows.
fn outline(mask: &mut [bool], width: usize, start: usize) -> Vec<[f32; 2]> {
    let height = mask.len() / width;
    let mut rows: std::collections::BTreeMap<usize, (usize, usize)> =
        std::collections::BTreeMap::new();
    let mut open = vec![start];
    mask[start] = false;
    while let Some(at) = open.pop() {
        let (x, y) = (at % width, at / width);
        let row = rows.entry(y).or_insert((x, x));
        *row = (row.0.min(x), row.1.max(x));
        for next_y in y.saturating_sub(1)..=(y + 1).min(height - 1) {
            for next_x in x.saturating_sub(1)..=(x + 1).min(width - 1) {
                let next = next_y * width + next_x;
                if mask[next] {
                    mask[next] = false;
                    open.push(next);
                }
            }
        }
    }
    rows.into_iter()
        .flat_map(|(y, (left, right))| [[left as f32, y as f32], [right as f32, y as f32]])
        .collect()
}

/// The convex hull, by Andrew's monotone chain; points come sorted by rows.
fn hull(points: Vec<[f32; 2]>) -> Vec<[f32; 2]> {
    let turns = |a: [f32; 2], b: [f32; 2], c: [f32; 2]| {
        (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    };
    let mut points = points;
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let chain = |points: &mut dyn Iterator<Item = [f32; 2]>| {
        let mut chain: Vec<[f32; 2]> = Vec::new();
        for point in points {
            while let [.., a, b] = chain.as_slice() {
                if turns(*a, *b, point) > 0.0 {
                    break;
                }
                chain.pop();
            }
            chain.push(point);
        }
        chain.pop();
        chain
    };
    let mut whole = chain(&mut points.iter().copied());
    whole.extend(chain(&mut points.iter().rev().copied()));
    whole
}

/// The rectangle of least area around a convex hull, one of whose sides lies on a side of the hull; and its shorter
/// side.
fn smallest_rectangle(hull: &[[f32; 2]]) -> (Corners, f32) {
    let mut best: Option<(f32, Corners)> = None;
    for (index, from) in hull.iter().enumerate() {
        let to = hull[(index + 1) % hull.len()];
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let length = dx.hypot(dy);
        let (ux, uy) = if length > 0.0 { (dx / length, dy / length) } else { (1.0, 0.0) };
        let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        for [x, y] in hull {
            let along = [x * ux + y * uy, y * ux - x * uy];
            for axis in 0..2 {
                low[axis] = low[axis].min(along[axis]);
                high[axis] = high[axis].max(along[axis]);
            }
        }
        let area = (high[0] - low[0]) * (high[1] - low[1]);
        if best.is_none_or(|it| area < it.0) {
            let back = |a: f32, b: f32| [a * ux - b * uy, a * uy + b * ux];
            let corners = [
                back(low[0], low[1]),
                back(high[0], low[1]),
                back(high[0], high[1]),
                back(low[0], high[1]),
            ];
            best = Some((area, corners));
        }
    }
    let corners = ordered(best.map_or([[0.0; 2]; 4], |it| it.1));
    (corners, sides(&corners).1)
}

/// Corners in their order, whichever side of the rectangle was first.
fn ordered(corners: Corners) -> Corners {
    let mut by_x = corners;
    by_x.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let [first, second, third, fourth] = by_x;
    let pair = |a: [f32; 2], b: [f32; 2]| if a[1] <= b[1] { (a, b) } else { (b, a) };
    let (left_top, left_bottom) = pair(first, second);
    let (right_top, right_bottom) = pair(third, fourth);
    [left_top, right_top, right_bottom, left_bottom]
}

/// The longer and the shorter side.
pub(crate) fn sides(corners: &Corners) -> (f32, f32) {
    let (width, height) = extent(corners);
    (width.max(height), width.min(height))
}

/// Width and height.
pub(crate) fn extent(corners: &Corners) -> (f32, f32) {
    let length = |a: [f32; 2], b: [f32; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
    (length(corners[0], corners[1]), length(corners[0], corners[3]))
}

/// Grown on all sides by the same.
fn grown(corners: &Corners) -> Corners {
    let (width, height) = extent(corners);
    if width <= 0.0 || height <= 0.0 {
        return *corners;
    }
    let by = width * height * GROWTH / (2.0 * (width + height));
    let unit = |from: [f32; 2], to: [f32; 2], length: f32| {
        [(to[0] - from[0]) / length * by, (to[1] - from[1]) / length * by]
    };
    let (across, down) =
        (unit(corners[0], corners[1], width), unit(corners[0], corners[3], height));
    let moved = |corner: [f32; 2], x: f32, y: f32| {
        [corner[0] + across[0] * x + down[0] * y, corner[1] + across[1] * x + down[1] * y]
    };
    [
        moved(corners[0], -1.0, -1.0),
        moved(corners[1], 1.0, -1.0),
        moved(corners[2], 1.0, 1.0),
        moved(corners[3], -1.0, 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(width: usize, height: usize, text: impl Fn(f32, f32) -> bool) -> Vec<f32> {
        (0..width * height)
            .map(|at| if text((at % width) as f32, (at / width) as f32) { 0.9 } else { 0.05 })
            .collect()
    }

    #[test]
    fn two_lines_are_two_boxes_that_have_grown() {
        let values = map(120, 60, |x, y| {
            (10.0..100.0).contains(&x) && ((10.0..18.0).contains(&y) || (36.0..44.0).contains(&y))
        });
        let found = find(&Map { width: 120, height: 60, values: &values });
        assert_eq!(found.len(), 2);
        // 90 × 8 points, and one more to the right and below; grown by 90 · 8 · 1.6 / 196 = 5.9.
        let [left_top, right_top, right_bottom, _] = found[0];
        assert!((left_top[0] - 4.1).abs() < 0.5 && (left_top[1] - 4.1).abs() < 0.5, "{left_top:?}");
        assert!((right_top[0] - 105.9).abs() < 0.5, "{right_top:?}");
        assert!((right_bottom[1] - 23.9).abs() < 0.5, "{right_bottom:?}");
    }

    #[test]
    fn a_slanted_line_has_a_slanted_box() {
        let values = map(200, 120, |x, y| {
            let along = (x - 20.0) * 0.94 + (y - 30.0) * 0.34;
            let across = (y - 30.0) * 0.94 - (x - 20.0) * 0.34;
            (0.0..140.0).contains(&along) && (0.0..10.0).contains(&across)
        });
        let found = find(&Map { width: 200, height: 120, values: &values });
        assert_eq!(found.len(), 1);
        let (width, height) = extent(&found[0]);
        assert!((width - 155.0).abs() < 6.0 && (height - 25.0).abs() < 5.0, "{width} {height}");
        let slope = (found[0][1][1] - found[0][0][1]) / (found[0][1][0] - found[0][0][0]);
        assert!((slope - 0.36).abs() < 0.04, "{slope}");
    }

    #[test]
    fn specks_and_empty_pages_have_none() {
        let speck = map(40, 40, |x, y| x == 20.0 && y == 20.0);
        assert!(find(&Map { width: 40, height: 40, values: &speck }).is_empty());
        assert!(find(&Map { width: 40, height: 40, values: &[0.0; 1600] }).is_empty());
        let all = vec![1.0; 1600];
        assert_eq!(find(&Map { width: 40, height: 40, values: &all }).len(), 1);
    }
}
