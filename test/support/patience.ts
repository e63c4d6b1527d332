/** How long anything may take that is certain to happen: only a machine that stands still takes longer. */
export const PATIENCE_MS = 60_000

/** Settings of API and worker under which a slow machine does not look like a node that is gone. */
export const PATIENT_SETTINGS = { RPC_TIMEOUT_MS: String(PATIENCE_MS) }
