//! Every store here against the public contract.

mod stores;

mod memory {
    seawall_idempotency::store_contract! { async { crate::stores::memory().0 } }
    seawall_idempotency::transaction_contract! { async { crate::stores::memory() } }
}

mod sqlite {
    seawall_idempotency::store_contract! { async { crate::stores::sqlite().await.0 } }
    seawall_idempotency::transaction_contract! { crate::stores::sqlite() }
}

mod postgres {
    seawall_idempotency::store_contract! { async { crate::stores::postgres().await.0 } }
    seawall_idempotency::transaction_contract! { crate::stores::postgres() }
}

mod redis {
    seawall_idempotency::store_contract! { crate::stores::redis() }
}
