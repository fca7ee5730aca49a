//! A job as clients see it: 47 fields, each written, nil where there is nothing; and the entry of a dead one. Never asks the
//! broker.

use bytes::BufMut as _;

use crate::codec::{MapWriter, put_list_head, put_text, put_texts};
