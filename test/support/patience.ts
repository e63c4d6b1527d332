/** Upper bound for anything that is certain to happen; no loaded machine takes longer. */
export const PATIENCE_MS = 60_000

/** Settings of API and worker with which a slow machine is not mistaken for an unreachable node. */
export const PATIENT_SETTINGS = { RPC_TIMEOUT_MS: String(PATIENCE_MS) }
