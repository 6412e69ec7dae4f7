//! Numbers and lists in words, for the sentences of documents and of the programs that show them.

/// A frame rate with its unit: "86.4 kpps", and below 1 kpps "20 pps".
pub fn rate(pps: f64) -> String {
    if pps >= 999.95 || pps == 0.0 {
        return format!("{:.1} kpps", pps / 1e3);
    }
    format!("{} pps", brief(pps, 1))
}

/// Bits per second with their unit: "67.2 Mb/s", "16.1 kb/s".
pub fn bits(bps: f64) -> String {
    match bps {
        bps if bps >= 999_950.0 || bps == 0.0 => format!("{:.1} Mb/s", bps / 1e6),
        bps if bps >= 999.5 => format!("{:.1} kb/s", bps / 1e3),
        bps => format!("{bps:.0} b/s"),
    }
}

/// A frame rate in kpps for a table: with one decimal, or more of them below 1 kpps.
pub fn in_kpps(pps: f64) -> String {
    match pps / 1e3 {
        k if k != 0.0 && k.abs() < 0.0995 => brief(k, 3),
        k => format!("{k:.1}"),
    }
}

/// A time in µs for a table, with one decimal; a dash for an unknown one.
pub fn in_us(ns: Option<u64>) -> String {
    ns.map_or_else(|| "–".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3))
}

/// A number with `decimals`, or as many more as two digits need; without zeros at the end.
fn brief(number: f64, decimals: usize) -> String {
    let needed = 1.0 - number.abs().max(1e-6).log10().floor();
    let text = format!("{number:.*}", decimals.max(needed as usize));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A frame rate in kpps, with three significant digits: "1488", "86.4", "9.40".
pub fn kpps(pps: f64) -> String {
    let kpps = pps / 1000.0;
    match kpps {
        0.0 => "0".to_owned(),
        k if k >= 99.95 => format!("{k:.0}"),
        k if k >= 9.995 => format!("{k:.1}"),
        k if k >= 0.0995 => format!("{k:.2}"),
        k => brief(k, 3),
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
        assert_eq!([20.0, 0.5].map(kpps), ["0.02", "0.0005"]);
        let rates = [0.0, 0.5, 20.0, 20.25, 940.0, 999.96, 86_400.0].map(rate);
        assert_eq!(rates, ["0.0 kpps", "0.5 pps", "20 pps", "20.2 pps", "940 pps", "1.0 kpps", "86.4 kpps"]);
        let rates = [0.0, 0.5, 20.0, 99.0, 940.0, 86_400.0].map(in_kpps);
        assert_eq!(rates, ["0.0", "0.0005", "0.02", "0.099", "0.9", "86.4"]);
        let all = [0.0, 336.0, 16_080.0, 999_960.0, 67.2e6].map(bits);
        assert_eq!(all, ["0.0 Mb/s", "336 b/s", "16.1 kb/s", "1.0 Mb/s", "67.2 Mb/s"]);
        let shares = [0.0, 0.001, 0.5, 0.9996, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "under 1 %", "50 %", "over 99 %", "100 %"]);
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!((list(&["a"]), list::<&str>(&[])), ("a".to_owned(), String::new()));
    }
}
