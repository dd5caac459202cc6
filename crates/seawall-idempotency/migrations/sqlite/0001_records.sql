-- One row for each record. Times are milliseconds since the Unix epoch.
CREATE TABLE seawall_idempotency (
    -- The number of the latest acquisition; AUTOINCREMENT never gives one twice.
    fence         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    key           BLOB    NOT NULL UNIQUE CHECK (length(key) = 32),
    state         INTEGER NOT NULL, -- 1 in flight, 2 unknown, 3 done
    algorithm     INTEGER NOT NULL,
    fingerprint   BLOB    NOT NULL,
    owner         BLOB    NOT NULL,
    holder        BLOB    NOT NULL,
    attempt       INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    lease_until   INTEGER NOT NULL,
    unknown_since INTEGER,
    completed_at  INTEGER,
    expires_at    INTEGER,
    forget_at     INTEGER,
    outcome       BLOB
) STRICT;

CREATE INDEX seawall_idempotency_owner ON seawall_idempotency (owner);
CREATE INDEX seawall_idempotency_open ON seawall_idempotency (created_at) WHERE state IN (1, 2);
CREATE INDEX seawall_idempotency_over ON seawall_idempotency (forget_at) WHERE state = 3;
