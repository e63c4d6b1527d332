/** A request to a vendor route, fully read. Header names are in lower case. */
export interface VendorRequest {
  readonly query: URLSearchParams
  /** The decoded part of the path that stands for the route's `{name}`; empty without one. */
  readonly parameter: string
  readonly headers: Headers
  /** The form fields; undefined when the body is not a readable form. */
  readonly form: FormData | undefined
  /** The form's `file`. */
  readonly audio: Uint8Array | undefined
  readonly body: Uint8Array
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

interface Route {
  /** `{name}` stands for one or more characters without slash and colon: `/v1/text-to-speech/{voice_id}`. */
  readonly path: string
  /** Refuses a request without the vendor's key, or with any except `apiKey`; without it, every key is accepted. */
  refuseKey(headers: Headers, apiKey: string | undefined): VendorAnswer | undefined
  /** Tells vendors with the same path apart by their headers. */
  accepts?(headers: Headers): boolean
}

/**
 * One simulated route, for POST. Another vendor is a folder with such an object and a line in `server.ts`; faults,
 * delays and the call log apply to every route.
 */
export interface VendorRoute extends Route {
  /** Returns the fields that the call log keeps, by default those of the form or of the JSON. */
  describe?(request: VendorRequest): Readonly<Record<string, string>>
  answer(request: VendorRequest): VendorAnswer | Promise<VendorAnswer>
  /** Returns the body of an answer without output, in the same shape. */
  emptied(body: object): unknown
}

/** A list of models or voices. It is no billable call: it is neither logged nor delayed, and no fault applies to it. */
export interface ListingRoute extends Route {
  answer(request: Pick<VendorRequest, 'query' | 'parameter'>): VendorAnswer
}

/** Returns the answer of a listing. */
export function listed(body: object): VendorAnswer {
  return { status: 200, accepted: false, body }
}

/**
 * Returns the decoded `{name}` of a path, empty for a route without one; undefined when the path is another route's.
 */
export function matchPath({ path }: Route, pathname: string): string | undefined {
  const literal = path.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&')
  const matched = new RegExp(`^${literal.replace(/\{\w+\}/, '([^/:]+)')}$`).exec(pathname)
  if (matched === null) return undefined
  const [, value = ''] = matched
  try {
    return decodeURIComponent(value)
  } catch {
    // A stray percent sign is literal.
    return value
  }
}
