/** A request to a vendor route, fully read. Header names are in lower case. */
export interface VendorRequest {
  /** Path and query as they came; its host means nothing. */
  readonly url: URL
  readonly headers: Headers
  /** The form fields, or undefined when the body is no readable form. */
  readonly form: FormData | undefined
  readonly body: Uint8Array
}

/** What the call log keeps of a request besides its route. */
export interface LoggedRequest {
  readonly audio?: Uint8Array
  readonly fields: Readonly<Record<string, string>>
}

/** An answer in the vendor's wire. `accepted` says whether the vendor did billable work for it. */
export interface VendorAnswer {
  readonly status: number
  readonly accepted: boolean
  /** Bytes and strings go out as they are, everything else as JSON. */
  readonly body: unknown
  /** Over the default `content-type: application/json`. Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * One simulated route. A further vendor is a folder with such an object and a line in `server.ts`; faults, delays and the
 * call log apply to it without its knowledge.
 */
export interface VendorRoute {
  readonly method: 'GET' | 'POST'
  /** `{name}` stands for one or more characters without slash and colon: `/v1/text-to-speech/{voice_id}`. */
  readonly path: string
  describe(request: VendorRequest): Promise<LoggedRequest>
  answer(request: VendorRequest): Promise<VendorAnswer>
  /** The answer of the same shape that holds no output. */
  emptied(answer: VendorAnswer): VendorAnswer
}

/** The part of the request's path that stands where the route's path has `{name}`, decoded; undefined where it has none. */
export function pathParameter(path: string, { url }: Pick<VendorRequest, 'url'>, name: string): string | undefined {
  const value = pathPattern(path).exec(url.pathname)?.groups?.[name]
  try {
    return value === undefined ? undefined : decodeURIComponent(value)
  } catch {
    // A stray percent sign stands for itself.
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
