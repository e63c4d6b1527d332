/** A request to a vendor's route, fully read. */
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
  /** Undefined when the body is not JSON. */
  readonly json: unknown
  /** Lower-case hex SHA-256 of the body, from which ids are made. */
  readonly digest: string
  /** Aborted when the caller has gone. */
  readonly signal: AbortSignal
  /** Whether a fault leaves the output out, or the token counts of a stream. */
  readonly lacks: 'output' | 'usage' | undefined
}

/** An answer in the vendor's wire format. The vendor did billable work only for a status of 200. */
export interface VendorAnswer {
  readonly status: number
  /** Bytes and strings are sent unchanged, everything else as JSON. */
  readonly body: unknown
  /** The events that are sent in place of the body when the request asked for a stream. */
  readonly events?: readonly string[]
  /** Headers that override the default `content-type: application/json`, with names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
}

interface Route {
  /** `{name}` stands for one or more characters without slash and colon: `/v1/text-to-speech/{voice_id}`. */
  readonly path: string
  /** Refuses a request without the vendor's key, or with any except `apiKey`; without it, every key is accepted. */
  refuseKey(headers: Headers, apiKey: string | undefined): VendorAnswer | undefined
  /** A header that tells vendors with the same path apart. */
  readonly header?: string
}

/**
 * One simulated route, for POST: a dialect of what the answerers in `writing/`, `hearing/`, `speaking/` and `drawing/`
 * decide. Another vendor is a folder with such an object and a line in `server.ts`; faults, delays and the call log apply to
 * every route.
 */
export interface VendorRoute extends Route {
  /** Returns fields that the call log keeps beside those of the form or of the JSON. */
  describe?(request: VendorRequest): Readonly<Record<string, string>>
  answer(request: VendorRequest): VendorAnswer | Promise<VendorAnswer>
}

/** A list of models or voices. It is no billable call: it is neither logged nor delayed, and no fault applies to it. */
export interface ListingRoute extends Route {
  /** Returns the list, or a refusal. */
  answer(request: Pick<VendorRequest, 'query' | 'parameter'>): VendorAnswer
}

export function ok(body: unknown, headers: Readonly<Record<string, string>> = {}): VendorAnswer {
  return { status: 200, body, headers }
}

/** Returns the fields of a form other than files. */
export function textFields(form: FormData): Record<string, string> {
  return Object.fromEntries([...form].flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])))
}

/** Returns the decoded `{name}` of a path, empty for a route without one; undefined when the path is another route's. */
export function matchPath({ path }: Route, pathname: string): string | undefined {
  const [matched, value = ''] = new RegExp(`^${path.replace(/\{\w+\}/, '([^/:]+)')}$`).exec(pathname) ?? []
  return matched === undefined ? undefined : decodeURIComponent(value)
}
