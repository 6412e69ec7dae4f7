//! Flame graphs: stacks of functions as nested boxes, each as wide as its share. The outermost function is on
//! top. No script draws them: a box shows its name and share when the pointer is on it.

use kpps_documents::lab::{Profile, Stack};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The style sheet of boxes. A name stands only in a box that has room for all of it.
pub(crate) const CSS: &str = "
.flame { display: flex; flex-direction: column; min-width: 0; overflow: hidden; container-type: inline-size; }
.flame > span { display: block; font: 12px/18px monospace; height: 20px; padding: 0 4px; white-space: nowrap;
  overflow: hidden; color: #1c1e21; background: #e9b44c; border: 1px solid var(--page); }
.flame > div { display: flex; }
@container (max-width: 85px) { .flame > span { font-size: 0; } }
@container (max-width: 160px) { .flame > span[data-tens='2'] { font-size: 0; } }
@container (max-width: 235px) { .flame > span[data-tens='3'] { font-size: 0; } }
@container (max-width: 310px) { .flame > span[data-tens='4'] { font-size: 0; } }
@container (max-width: 385px) { .flame > span[data-tens='5'] { font-size: 0; } }
@container (max-width: 530px) { .flame > span[data-tens='7'] { font-size: 0; } }
@container (max-width: 750px) { .flame > span[data-tens='10'] { font-size: 0; } }
";

/// The room that the style sheet asks for a name, in tens of letters; no more are shown.
const TENS: [usize; 7] = [1, 2, 3, 4, 5, 7, 10];

/// Boxes with a smaller share are left out.
const LEAST_SHARE: f64 = 0.002;

/// A function with the functions that it calls.
#[derive(Debug, Default)]
struct Node<'a> {
    share: f64,
    calls: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(stacks: &'a [Stack]) -> Self {
        let mut root = Self::default();
        for stack in stacks {
            root.share += stack.share;
            let mut node = &mut root;
            for function in &stack.functions {
                node = node.calls.entry(function).or_default();
                node.share += stack.share;
            }
        }
        root
    }

    /// The boxes of the functions that it calls, within a box of its own share.
    fn within(&self) -> Markup {
        let mut calls: Vec<_> = self.calls.iter().filter(|(_, node)| node.share >= LEAST_SHARE).collect();
        calls.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
        html! {
            @if !calls.is_empty() {
                div {
                    @for (name, node) in calls {
                        @let width = format!("width:{:.3}%", (node.share / self.share * 100.0).min(100.0));
                        div.flame style=(width) {
                            @let shown: String = name.chars().take(10 * TENS[TENS.len() - 1]).collect();
                            @let letters = shown.chars().count();
                            @let tens = TENS.into_iter().find(|tens| 10 * tens >= letters).unwrap_or(1);
                            span title=(format!("{name}: {:.1} %", node.share * 100.0)) data-tens=(tens) { (shown) }
                            (node.within())
                        }
                    }
                }
            }
        }
    }
}

/// The flame graph of a profile.
pub(crate) fn graph(profile: &Profile) -> Markup {
    let Profile { device, workload, driver, backend, instructions, stacks, .. } = profile;
    html! {
        section {
            h2 { (device) " " (workload) " " (driver) " " (backend) }
            p {
                "Shares of " (instructions) " instructions. A box is as wide as its function and all that it calls, \
                 as far as the order of addresses shows calls: code without symbols shows none."
            }
            div.flame { (Node::of(stacks).within()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_all_that_is_called() {
        let stack = |functions: &[&str], share| Stack {
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
            share,
        };
        let stacks = vec![
            stack(&["main"], 0.25),
            stack(&["main", "poll<T>"], 0.5),
            stack(&["irq"], 0.25),
            stack(&["rare"], 0.0001),
        ];
        let html = graph(&Profile { stacks, ..Profile::default() }).into_string();
        assert!(html.contains("title=\"main: 75.0 %\"") && html.contains("poll&lt;T&gt;: 50.0 %"), "{html}");
        assert!(html.contains("width:66.667%") && !html.contains("rare"), "{html}");
        assert!(html.find("main") < html.find("irq"), "{html}");
    }
}
