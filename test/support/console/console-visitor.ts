import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { readCsrfToken } from './read-markup.ts'

/** Where the requests of a {@link ConsoleVisitor} arrive; browsers send it with every form. */
const ORIGIN = 'http://127.0.0.1:8403'

export interface ConsoleAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
  readonly location: string | undefined
}

/** A browser without scripts: keeps its cookies and sends forms as browsers do. */
export interface ConsoleVisitor {
  /** Cookies by name; a test may change them. */
  readonly cookies: Map<string, string>
  readonly get: (address: string, headers?: Readonly<Record<string, string>>) => Promise<ConsoleAnswer>
  /** Sends a form with the token of the visitor's session. */
  submit(address: string, fields?: Readonly<Record<string, string>>): Promise<ConsoleAnswer>
  /** Sends a form exactly as given, with the headers of a browser on `origin`. */
  post(address: string, fields: Readonly<Record<string, string>>, origin?: string | null): Promise<ConsoleAnswer>
  /** Returns the token that the forms of this session carry. */
  csrfToken(): Promise<string>
  /** Signs in by the form; throws when that is refused. */
  signIn(name: string, password: string): Promise<void>
}

export function visitConsole(app: FastifyInstance, remoteAddress = '127.0.0.1'): ConsoleVisitor {
  const cookies = new Map<string, string>()
  const send = async (
    method: 'GET' | 'POST',
    url: string,
    headers: Readonly<Record<string, string>>,
    payload?: string,
  ): Promise<ConsoleAnswer> => {
    const response = await app.inject({
      method,
      url,
      remoteAddress,
      headers: { host: new URL(ORIGIN).host, ...headers },
      cookies: Object.fromEntries(cookies),
      ...(payload === undefined ? {} : { payload }),
    })
    keepCookies(cookies, response)
    return {
      status: response.statusCode,
      headers: response.headers,
      body: response.body,
      location: response.headers.location,
    }
  }
  const visitor: ConsoleVisitor = {
    cookies,
    get: async (address, headers = {}) => await send('GET', address, headers),
    submit: async (address, fields = {}) =>
      await visitor.post(address, { ...fields, _csrf: await visitor.csrfToken() }),
    post: async (address, fields, origin = ORIGIN) =>
      await send(
        'POST',
        address,
        {
          'content-type': 'application/x-www-form-urlencoded',
          ...(origin === null ? {} : { origin, 'sec-fetch-site': origin === ORIGIN ? 'same-origin' : 'cross-site' }),
        },
        new URLSearchParams(fields).toString(),
      ),
    csrfToken: async () => readCsrfToken((await visitor.get('/operator/account')).body),
    signIn: async (name, password) => {
      const { body } = await visitor.get('/operator/sign-in')
      const answer = await visitor.post('/operator/sign-in', { name, password, _csrf: readCsrfToken(body) })
      if (answer.status !== 303) throw new Error(`the sign-in of ${name} answers ${answer.status}: ${answer.body}`)
    },
  }
  return visitor
}

function keepCookies(cookies: Map<string, string>, { cookies: received }: LightMyRequestResponse): void {
  for (const { name, value, maxAge, expires } of received) {
    if (value === '' || maxAge === 0 || (expires && expires < new Date())) cookies.delete(name)
    else cookies.set(name, value)
  }
}
