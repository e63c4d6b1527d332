/** The windows in which the calls of deployments are looked at, in seconds. */
export const HEALTH_WINDOWS = { '15m': 900, '1h': 3600, '6h': 21_600, '24h': 86_400 } as const

export type HealthWindow = keyof typeof HEALTH_WINDOWS
