-- One row for each record.
CREATE TABLE seawall_idempotency (
    key           bytea       NOT NULL PRIMARY KEY CHECK (length(key) = 32),
    state         smallint    NOT NULL, -- 1 in flight, 2 unknown, 3 done
    algorithm     smallint    NOT NULL,
    fingerprint   bytea       NOT NULL,
    owner         bytea       NOT NULL,
    holder        bytea       NOT NULL,
    fence         bigint      NOT NULL,
    attempt       integer     NOT NULL,
    created_at    timestamptz NOT NULL,
    lease_until   timestamptz NOT NULL,
    unknown_since timestamptz,
    completed_at  timestamptz,
    expires_at    timestamptz,
    forget_at     timestamptz,
    outcome       bytea
);

CREATE INDEX seawall_idempotency_owner ON seawall_idempotency (owner);
CREATE INDEX seawall_idempotency_open ON seawall_idempotency (created_at) WHERE state IN (1, 2);
CREATE INDEX seawall_idempotency_over ON seawall_idempotency (forget_at) WHERE state = 3;

-- The number of an acquisition. Numbers may be skipped; none is given twice.
CREATE SEQUENCE seawall_idempotency_fence AS bigint CACHE 1;

-- Claims a key: the whole decision in one round trip and one commit.
--
-- verdict: 1 won, 2 busy, 3 done, 4 mismatch, 5 unknown (lease expired), 6 unknown (marked),
-- 7 tombstone, 8 over quota, 9 unreadable.
CREATE FUNCTION seawall_idempotency_claim(
    p_key bytea,
    p_algorithm smallint,
    p_fingerprint bytea,
    p_owner bytea,
    p_holder bytea,
    p_lease interval,
    p_quota integer,
    p_take_over boolean,
    OUT verdict smallint,
    OUT fence bigint,
    OUT attempt integer,
    OUT lease_until timestamptz,
    OUT looked_at timestamptz,
    OUT outcome bytea
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    seen seawall_idempotency%ROWTYPE;
    looked seawall_idempotency%ROWTYPE;
    locked boolean;
BEGIN
    -- A claim that a crash of the server forgets would let an effect elsewhere be made twice.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- Another claim may come between a look and an insert: look again, a few times.
    FOR round IN 1..4 LOOP
        SELECT * INTO seen FROM seawall_idempotency r WHERE r.key = p_key;
        looked_at := clock_timestamp();
        IF NOT FOUND THEN
            IF p_quota IS NOT NULL THEN
                -- One claim of one owner at a time, or two could both take the last place.
                PERFORM pg_advisory_xact_lock(
                    ('x' || encode(substr(p_owner, 1, 8), 'hex'))::bit(64)::bigint);
                IF (SELECT count(*) FROM (
                        SELECT 1 FROM seawall_idempotency r
                        WHERE r.owner = p_owner
                            AND (r.state <> 3 OR r.expires_at > clock_timestamp())
                        LIMIT p_quota) live) >= p_quota
                    AND NOT EXISTS (SELECT 1 FROM seawall_idempotency r WHERE r.key = p_key)
                THEN
                    verdict := 8;
                    RETURN;
                END IF;
            END IF;
            fence := nextval('seawall_idempotency_fence');
            attempt := 1;
            lease_until := clock_timestamp() + p_lease;
            INSERT INTO seawall_idempotency AS r (key, state, algorithm, fingerprint, owner,
                    holder, fence, attempt, created_at, lease_until)
                VALUES (p_key, 1, p_algorithm, p_fingerprint, p_owner,
                    p_holder, seawall_idempotency_claim.fence, 1, clock_timestamp(),
                    seawall_idempotency_claim.lease_until)
                ON CONFLICT DO NOTHING;
            IF FOUND THEN
                verdict := 1;
                RETURN;
            END IF;
            CONTINUE;
        END IF;

        IF seen.state NOT BETWEEN 1 AND 3 THEN
            -- Written by a newer version.
            verdict := 9;
            RETURN;
        END IF;
        fence := seen.fence;
        attempt := seen.attempt;
        lease_until := seen.lease_until;
        IF seen.state = 3 AND seen.expires_at <= looked_at THEN
            IF seen.forget_at > looked_at THEN
                verdict := 7;
                RETURN;
            END IF;
            -- The key is free again: the old record makes room for the new request.
            DELETE FROM seawall_idempotency r
                WHERE r.key = p_key AND r.fence = seen.fence AND r.state = 3
                    AND r.forget_at <= looked_at;
            CONTINUE;
        END IF;
        IF seen.algorithm <> p_algorithm OR seen.fingerprint <> p_fingerprint THEN
            verdict := 4;
            RETURN;
        END IF;
        IF seen.state = 3 THEN
            verdict := 3;
            outcome := seen.outcome;
            RETURN;
        END IF;
        IF seen.state = 1 AND seen.holder = p_holder THEN
            verdict := 1;
            RETURN;
        END IF;
        IF seen.state = 1 AND seen.lease_until > looked_at THEN
            verdict := 2;
            RETURN;
        END IF;

        -- The lease is over or the outcome unknown. A row that is locked belongs to a transaction
        -- that is about to say how it ended: nobody waits for it here with a connection in hand.
        PERFORM 1 FROM seawall_idempotency r
            WHERE r.key = p_key FOR UPDATE SKIP LOCKED;
        locked := NOT FOUND;
        looked := seen;
        SELECT * INTO seen FROM seawall_idempotency r WHERE r.key = p_key;
        IF NOT FOUND THEN
            CONTINUE;
        END IF;
        IF locked THEN
            IF seen.state = 3 THEN
                CONTINUE;
            END IF;
            verdict := 2;
            lease_until := looked_at;
            RETURN;
        END IF;
        -- The row is locked here now; was it settled, renewed or made anew before that?
        IF seen.fence <> looked.fence OR seen.state = 3
            OR (seen.state = 1 AND seen.lease_until > clock_timestamp())
        THEN
            CONTINUE;
        END IF;
        IF NOT p_take_over THEN
            IF seen.state = 1 THEN
                verdict := 5;
                looked_at := seen.lease_until;
            ELSE
                verdict := 6;
                looked_at := seen.unknown_since;
            END IF;
            RETURN;
        END IF;
        fence := nextval('seawall_idempotency_fence');
        attempt := seen.attempt + 1;
        lease_until := clock_timestamp() + p_lease;
        UPDATE seawall_idempotency AS r SET
                state = 1,
                holder = p_holder,
                fence = seawall_idempotency_claim.fence,
                attempt = seawall_idempotency_claim.attempt,
                lease_until = seawall_idempotency_claim.lease_until,
                unknown_since = NULL
            WHERE r.key = p_key;
        verdict := 1;
        RETURN;
    END LOOP;
    -- The record came and went at every look. Never run unclaimed.
    verdict := 2;
    lease_until := looked_at;
END;
$$;

-- Holds a record for the rest of the transaction, if the fence is current and it is not settled.
-- Otherwise the transaction becomes read-only: nothing can be written in it, and it costs no
-- further round trip to say so. It never fails, since a failed BEGIN would leave its connection in
-- a broken transaction.
CREATE FUNCTION seawall_idempotency_hold(p_key bytea, p_fence bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held boolean;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    BEGIN
        PERFORM 1 FROM seawall_idempotency r
            WHERE r.key = p_key AND r.fence = p_fence AND r.state IN (1, 2) FOR UPDATE;
        held := FOUND;
    EXCEPTION WHEN OTHERS OR query_canceled THEN
        held := false;
    END;
    -- Not in the block above: it is a subtransaction, and read-only would end with it.
    IF NOT held THEN
        PERFORM set_config('transaction_read_only', 'on', true);
    END IF;
    -- Ends with the transaction. Whoever writes the outcome can tell that it is still the same one.
    PERFORM set_config('seawall_idempotency.held', p_fence::text, true);
END;
$$;
