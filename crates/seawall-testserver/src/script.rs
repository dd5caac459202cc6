use crate::{Reply, Request};

/// Says how a server answers each request.
///
/// A [`Reply`] alone answers every request, a list the request with that index (the last one goes
/// on for ever), a closure whatever it decides from the whole request.
pub trait Script: Send + Sync + 'static {
    /// The reply to a request whose body has been read.
    fn reply(&self, request: &Request) -> Reply;

    /// The reply to a request of which only the head has come, or none to wait for its body.
    fn before_body(&self, _head: &Request) -> Option<Reply> {
        None
    }
}

impl<F: Fn(&Request) -> Reply + Send + Sync + 'static> Script for F {
    fn reply(&self, request: &Request) -> Reply {
        self(request)
    }
}

impl Script for Reply {
    fn reply(&self, _request: &Request) -> Reply {
        self.clone()
    }

    fn before_body(&self, _head: &Request) -> Option<Reply> {
        early(self)
    }
}

impl Script for Vec<Reply> {
    fn reply(&self, request: &Request) -> Reply {
        nth(self, request)
    }

    fn before_body(&self, head: &Request) -> Option<Reply> {
        early(&nth(self, head))
    }
}

impl<const N: usize> Script for [Reply; N] {
    fn reply(&self, request: &Request) -> Reply {
        nth(self, request)
    }

    fn before_body(&self, head: &Request) -> Option<Reply> {
        early(&nth(self, head))
    }
}

fn nth(replies: &[Reply], request: &Request) -> Reply {
    let last = replies.len().saturating_sub(1);
    match replies.get(request.index.min(last)) {
        Some(reply) => reply.clone(),
        None => Reply::status(500).body("the script of this server is empty"),
    }
}

fn early(reply: &Reply) -> Option<Reply> {
    reply.after_body_bytes.is_some().then(|| reply.clone())
}
