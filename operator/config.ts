import { z } from 'zod'
import { SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'
import { accountAddress, refundSettings } from '#shared/payment/account-settings.ts'
import { chainSettings } from '#shared/payment/chain-settings.ts'
import { parseSettings } from '#shared/runtime/parse-settings.ts'
import { telemetrySettings } from '#shared/runtime/telemetry-settings.ts'
import { trustedProxies } from '#shared/runtime/trusted-proxies.ts'

/** All settings; tests check the deployment files against them. */
export const settingsSchema = z.object({
  /** Never the address of a public network: the console is reached through a tunnel or a private network. */
  OPERATOR_HOST: z.string().default('127.0.0.1'),
  OPERATOR_PORT: z.coerce.number().int().min(0).max(65_535).default(8403),
  /** Where operators open the console. With https, browsers send its cookies over TLS only. */
  OPERATOR_BASE_URL: z.url({ protocol: /^https?$/, error: 'must be an http(s) URL' }).default('http://127.0.0.1:8403'),
  /**
   * Comma-separated hosts by which browsers may reach the console, next to that of OPERATOR_BASE_URL and the names of
   * loopback; with a port where it is not the scheme's own.
   */
  OPERATOR_HOSTS: z
    .string()
    .transform((list) => list.split(',').map((host) => host.trim()))
    .pipe(
      z.array(
        z.string().regex(/^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i, 'must be hosts, such as console.example'),
      ),
    )
    .optional(),
  /** Creates the account `operator`, which may act, when there is no account at the start. */
  OPERATOR_INITIAL_PASSWORD: z
    .string()
    .min(SHORTEST_PASSWORD, { error: `must have at least ${SHORTEST_PASSWORD} characters` })
    .optional(),
  /** Comma-separated addresses or networks of the proxies whose X-Forwarded-For is trusted; none by default. */
  OPERATOR_TRUSTED_PROXIES: trustedProxies.optional(),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  DATABASE_CONNECTIONS: z.coerce.number().int().min(1).default(5),
  ...chainSettings,
  ...refundSettings,
  /** The addresses of the workers' settlement keys, whose gas the console shows; none with a remote facilitator. */
  FACILITATOR_ADDRESSES: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(accountAddress).nonempty())
    .optional(),
  ...telemetrySettings,
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
})

export type OperatorConfig = z.infer<typeof settingsSchema>

/** Reads and validates the environment. */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): OperatorConfig {
  return parseSettings(settingsSchema, Object.keys(settingsSchema.shape), environment)
}
