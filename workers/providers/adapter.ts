import { z } from 'zod'
import type { ProviderPorts } from './deployment.ts'
import type { SendHttp } from './http.ts'

interface Connection {
  readonly baseUrl: string
  readonly upstreamModel: string
  readonly http: SendHttp
}

type KeyedConnection = Connection & { readonly apiKey: string }
type OpenConnection = Connection & { readonly apiKey?: string }

/**
 * A vendor's way of serving deployments. `ports` throws a ZodError for `options` of the deployments file that the
 * adapter does not support.
 */
export type Adapter =
  | { readonly needsKey: true; ports(connection: KeyedConnection, options: unknown): ProviderPorts }
  | { readonly needsKey: false; ports(connection: OpenConnection, options: unknown): ProviderPorts }

/** The options of adapters that have none. */
export const noOptionsSchema = z.strictObject({})
