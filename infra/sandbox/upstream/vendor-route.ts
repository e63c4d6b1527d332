/** A request to a vendor route, fully read. Header names are in lower case. */
export interface VendorRequest {
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
  readonly body: unknown
}

/**
 * One simulated route. A further vendor is a folder with such an object and a line in `server.ts`; faults, delays and the
 * call log apply to it without its knowledge.
 */
export interface VendorRoute {
  readonly method: 'GET' | 'POST'
  readonly path: string
  describe(request: VendorRequest): Promise<LoggedRequest>
  answer(request: VendorRequest): Promise<VendorAnswer>
  /** The answer of the same shape that holds no output. */
  emptied(answer: VendorAnswer): VendorAnswer
}
