import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConsoleVisitor } from '../../support/console/console-visitor.ts'
import { startTestConsole, type TestConsole } from '../../support/console/test-console.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'

describe('the console during a database outage', () => {
  let proxy: TcpFaultProxy
  let console: TestConsole
  let actor: ConsoleVisitor
  let token: string

  beforeAll(async () => {
    console = await startTestConsole(async (url) => {
      const target = new URL(url)
      proxy = await startTcpFaultProxy({ host: target.hostname, port: Number(target.port) })
      target.port = String(proxy.port)
      return target.href
    })
    actor = await console.signIn('act')
    token = await actor.csrfToken()
    await proxy.setFault({ kind: 'refuse' })
  })
  afterAll(async () => {
    await console.close()
    await proxy.stop()
  })

  it('says on every page that the database does not answer, and shows none of it', async () => {
    for (const { kind, path } of console.app.consoleRoutes.filter((route) => route.kind !== 'action')) {
      const { status, body } = await actor.get(path.replaceAll(/:\w+/g, 'x'))
      expect([kind, path, status]).toEqual([kind, path, 503])
      expect(body).toContain('The database does not answer')
      expect(body).not.toContain('Sign out')
    }
  })

  it('signs nobody in, and changes nothing', async () => {
    const before = await console.ledger.fingerprint()
    for (const { path } of console.app.consoleRoutes.filter(({ kind }) => kind === 'action')) {
      const { status } = await actor.post(path.replaceAll(/:\w+/g, 'x'), { _csrf: token })
      expect([path, status]).toEqual([path, 503])
    }
    await expect(console.signIn('act')).rejects.toThrow('answers 503')
    expect(await console.ledger.fingerprint()).toBe(before)
  })

  it('is alive, and leads to no other site', async () => {
    expect((await actor.get('/operator/healthz')).status).toBe(200)
    // The page reads itself again: its address must stay one of this console.
    const { body } = await actor.get('//evil.test/operator')
    expect(body).not.toMatch(/(?:hx-get|href|action)="\/\//)
  })

  it('continues with the same session once the database answers', async () => {
    await proxy.setFault(null)
    await expect.poll(async () => (await actor.get('/operator')).status).toBe(200)
  })
})
