-- Claims a key: the whole decision in one round trip and one commit.
--
-- verdict: 1 won, 2 busy, 3 done, 4 mismatch, 5 unknown (lease expired), 6 unknown (marked),
-- 7 tombstone, 8 over quota, 9 unreadable.
CREATE OR REPLACE FUNCTION seawall_idempotency_claim(
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
    ignored text;
    -- The sequence alone could give a number twice: what a crash of the server forgets of it goes
    -- with a claim whose owner may live on. So a number ends with the holder's first bytes, which
    -- are random.
    ending integer := get_byte(p_holder, 0) * 256 + get_byte(p_holder, 1);
BEGIN
    -- A claim that a crash of the server forgets would let an effect elsewhere be made twice. But
    -- where a record whose outcome is unknown is run again anyway, it is one of those: its commit
    -- need not wait for the disk. What commits later is behind it in the log, and is not there
    -- either without it.
    IF p_take_over THEN
        ignored := set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        ignored := set_config('synchronous_commit', 'on', true);
    END IF;
    -- Another claim may come between a look and an insert: look again, a few times.
    FOR round IN 1..4 LOOP
        -- A look comes first, though most keys are free: an insert would wait for a transaction
        -- that has written the key's outcome.
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
            INSERT INTO seawall_idempotency AS r (key, state, algorithm, fingerprint, owner,
                    holder, fence, attempt, created_at, lease_until)
                VALUES (p_key, 1, p_algorithm, p_fingerprint, p_owner,
                    p_holder, nextval('seawall_idempotency_fence') * 65536 + ending, 1,
                    clock_timestamp(),
                    clock_timestamp() + p_lease)
                ON CONFLICT DO NOTHING
                RETURNING 1, r.fence, r.attempt, r.lease_until
                INTO verdict, fence, attempt, lease_until;
            IF FOUND THEN
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
        fence := nextval('seawall_idempotency_fence') * 65536 + ending;
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

-- As before, but that nothing is asked where an expression says the same.
CREATE OR REPLACE FUNCTION seawall_idempotency_hold(p_key bytea, p_fence bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held boolean;
    ignored text;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        ignored := set_config('synchronous_commit', 'on', true);
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
        ignored := set_config('transaction_read_only', 'on', true);
    END IF;
    -- Ends with the transaction. Whoever writes the outcome can tell that it is still the same one.
    ignored := set_config('seawall_idempotency.held', p_fence::text, true);
END;
$$;

-- An outcome comes in the text of a statement, and texts are logged: the server's on errors, the
-- client library's when they are slow. So it is veiled, by XOR with the hashes of the secret, a
-- number that is used once, and a count.
-- (Not in SQL: a function of that is planned anew for every call.)
CREATE FUNCTION seawall_idempotency_unveil(p_once bytea, p_veiled bytea) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
DECLARE
    base bytea;
    hashes bytea := '';
BEGIN
    SELECT s.secret || p_once INTO base FROM seawall_idempotency_schema s;
    FOR part IN 0..(length(p_veiled) - 1) / 32 LOOP
        hashes := hashes || sha256(base || int4send(part));
    END LOOP;
    RETURN substr(varbit_send(
        ('x' || encode(p_veiled, 'hex'))::varbit
        # ('x' || encode(substr(hashes, 1, length(p_veiled)), 'hex'))::varbit), 5);
END;
$$;

-- Writes an outcome in the transaction that holds its record. It fails when it cannot, so that what
-- follows in the same message, a COMMIT, is not carried out: SWL01 when the fence is not current or
-- the record settled, SWL02 when the transaction that held it has ended.
CREATE FUNCTION seawall_idempotency_finish(
    p_key bytea,
    p_fence bigint,
    p_keep interval,
    p_forget interval,
    p_once bytea,
    p_veiled bytea
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('seawall_idempotency.held', true) IS DISTINCT FROM p_fence::text THEN
        RAISE EXCEPTION 'the transaction that held the record has ended'
            USING ERRCODE = 'SWL02';
    END IF;
    UPDATE seawall_idempotency r SET
            state = 3,
            completed_at = clock_timestamp(),
            expires_at = clock_timestamp() + p_keep,
            forget_at = clock_timestamp() + p_forget,
            outcome = seawall_idempotency_unveil(p_once, p_veiled),
            unknown_since = NULL
        WHERE r.key = p_key AND r.fence = p_fence AND r.state IN (1, 2);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another acquisition holds the record' USING ERRCODE = 'SWL01';
    END IF;
END;
$$;

-- A check is parsed anew for every statement that writes a row. It goes where that is to be had at
-- once: a handler of another process that holds a record would keep it waiting, and everybody else's
-- claims behind it.
DO $$
BEGIN
    SET LOCAL lock_timeout = '500ms';
    ALTER TABLE seawall_idempotency DROP CONSTRAINT seawall_idempotency_key_check;
EXCEPTION WHEN lock_not_available THEN
    RAISE DEBUG 'the check of the key stays';
END;
$$;
