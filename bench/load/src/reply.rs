//! Tells where a reply ends, and whether it begins with a 1.

use crate::Outcome;

/// A whole reply at the start of some bytes.
#[derive(Clone, Copy)]
pub struct Reply {
    pub len: usize,
    /// The first integer in it: a limiter's verdict.
    pub first: Option<i64>,
}

/// The reply at the start of the bytes, or `None` while some of it is missing.
pub fn read(bytes: &[u8]) -> Outcome<Option<Reply>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let (kind, line) = bytes[..end]
        .split_first()
        .ok_or("an empty line for a reply")?;
    let line = std::str::from_utf8(line)?;
    let mut len = end + 2;
    let mut first = None;
    match kind {
        b'+' => {}
        b':' => first = Some(line.parse()?),
        b'$' => {
            if let Ok(size) = line.parse::<usize>() {
                len += size + 2;
            }
        }
        b'*' => {
            for _ in 0..line.parse::<usize>().unwrap_or(0) {
                let Some(element) = read(bytes.get(len..).unwrap_or_default())? else {
                    return Ok(None);
                };
                len += element.len;
                first = first.or(element.first);
            }
        }
        b'-' => return Err(format!("the server answered: {line}").into()),
        _ => return Err(format!("no reply begins with byte {kind}").into()),
    }
    Ok((len <= bytes.len()).then_some(Reply { len, first }))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_reply_is_whole_or_not_there() {
        for text in [
            "+OK\r\n",
            ":17\r\n",
            "$-1\r\n",
            "$3\r\na\r\n\r\n",
            "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
        ] {
            for end in 0..text.len() {
                assert!(matches!(read(&text.as_bytes()[..end]), Ok(None)));
            }
            let more = format!("{text}:1\r\n");
            let reply = read(more.as_bytes()).ok().flatten();
            assert_eq!(reply.map(|reply| reply.len), Some(text.len()), "{text:?}");
        }
    }

    #[test]
    fn the_first_integer_is_the_verdict() {
        let first = |text: &str| read(text.as_bytes()).ok().flatten().and_then(|r| r.first);
        assert_eq!(first(":17\r\n"), Some(17));
        assert_eq!(first("*2\r\n:0\r\n:1\r\n"), Some(0));
        assert_eq!(first("+OK\r\n"), None);
        assert!(read(b"-ERR no\r\n").is_err());
    }
}
