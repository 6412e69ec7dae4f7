//! Numbers as text.

/// A packet rate in kpps, with three significant digits: "1488", "86.4", "9.40".
pub fn kpps(pps: f64) -> String {
    let kpps = pps / 1000.0;
    match kpps {
        0.0 => "0".to_owned(),
        k if k >= 99.95 => format!("{k:.0}"),
        k if k >= 9.995 => format!("{k:.1}"),
        k => format!("{k:.2}"),
    }
}

/// A share of 0 to 1 in whole per cent; "0 %" and "100 %" only for exact
/// values.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.5 => "under 1 %".to_owned(),
        p if (99.5..100.0).contains(&p) => "over 99 %".to_owned(),
        p => format!("{p:.0} %"),
    }
}

/// "a", "a and b", "a, b and c".
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let rates = [0.0, 940.0, 9_400.0, 9_999.0, 99_970.0, 1_488_095.2].map(kpps);
        assert_eq!(rates, ["0", "0.94", "9.40", "10.0", "100", "1488"]);
        let shares = [0.0, 0.001, 0.5, 0.9996, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "under 1 %", "50 %", "over 99 %", "100 %"]);
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!((list(&["a"]), list::<&str>(&[])), ("a".to_owned(), String::new()));
    }
}
