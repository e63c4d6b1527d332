/** A request to a vendor route, fully read. Header names are in lower case. */
export interface VendorRequest {
  /** The received path and query, with an arbitrary host. */
  readonly url: URL
  readonly headers: Headers
  /** The form fields; undefined when the body is not a readable form. */
  readonly form: FormData | undefined
  readonly body: Uint8Array
}

/** The parts of a request that the call log keeps in addition to its route. */
export interface LoggedRequest {
  readonly audio?: Uint8Array
  readonly fields: Readonly<Record<string, string>>
}

/** An answer in the vendor's wire format. `accepted` is whether the vendor did billable work for it. */
export interface VendorAnswer {
  readonly status: number
  readonly accepted: boolean
  /** Bytes and strings are sent unchanged, everything else as JSON. */
  readonly body: unknown
  /** Divides the body into the events of a stream, if the request asked for one. */
  readonly stream?: (body: unknown, options: { readonly reportsUsage: boolean }) => readonly string[]
  /** Headers that override the default `content-type: application/json`, with names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * One simulated route. Another vendor is a folder with such an object and a line in `server.ts`; faults, delays and the call
 * log apply to every route.
 */
export interface VendorRoute {
  readonly method: 'GET' | 'POST'
  /** `{name}` stands for one or more characters without slash and colon: `/v1/text-to-speech/{voice_id}`. */
  readonly path: string
  describe(request: VendorRequest): Promise<LoggedRequest>
  answer(request: VendorRequest): Promise<VendorAnswer>
  /** Returns an answer of the same shape without output. */
  emptied(answer: VendorAnswer): VendorAnswer
}

/**
 * A list of models or voices. It is no billable call: it is neither logged nor delayed, and no fault applies to it.
 * `accepts` tells vendors with the same path apart by their headers.
 */
export interface ListingRoute {
  readonly path: string
  accepts?(headers: Headers): boolean
  answer(request: Pick<VendorRequest, 'url' | 'headers'>): VendorAnswer
}

/** Returns the decoded part of the request's path that matches the route's `{name}`; undefined when there is none. */
export function pathParameter(path: string, { url }: Pick<VendorRequest, 'url'>, name: string): string | undefined {
  const value = pathPattern(path).exec(url.pathname)?.groups?.[name]
  try {
    return value === undefined ? undefined : decodeURIComponent(value)
  } catch {
    // A stray percent sign is literal.
    return value
  }
}

export function matchesPath({ path }: Pick<VendorRoute, 'path'>, pathname: string): boolean {
  return pathPattern(path).test(pathname)
}

function pathPattern(path: string): RegExp {
  const literal = path.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&')
  return new RegExp(`^${literal.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/:]+)')}$`)
}
