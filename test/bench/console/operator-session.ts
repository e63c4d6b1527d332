/** A signed-in operator, who reads pages as a browser does, without their scripts. */
export interface OperatorSession {
  /** Reads a page to its end, through at most one redirect, and returns how long that took. Throws unless it is a 200. */
  read(path: string): Promise<number>
}

/** Signs in by the form. */
export async function signInOperator(account: {
  readonly url: string
  readonly user: string
  readonly password: string
}): Promise<OperatorSession> {
  const { origin } = new URL(account.url)
  const form = await fetch(`${origin}/operator/sign-in`)
  const token = /name="_csrf" value="([^"]+)"/.exec(await form.text())?.[1] ?? ''
  const signedIn = await fetch(`${origin}/operator/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie: cookiesOf(form), origin, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ _csrf: token, name: account.user, password: account.password }),
  })
  if (signedIn.status !== 303) throw new Error(`the sign-in: ${signedIn.status} ${await signedIn.text()}`)
  const cookie = cookiesOf(signedIn)
  return {
    read: async (path) => {
      const startedAt = performance.now()
      const response = await fetch(`${origin}${path}`, { headers: { cookie } })
      const text = await response.text()
      if (response.status !== 200 || new URL(response.url).pathname === '/operator/sign-in')
        throw new Error(`${path}: ${response.status} ${text.slice(0, 2000)}`)
      return performance.now() - startedAt
    },
  }
}

function cookiesOf(response: Response): string {
  return response.headers
    .getSetCookie()
    .map((cookie) => cookie.split(';')[0])
    .join('; ')
}
