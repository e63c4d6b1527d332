import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, expect, it } from 'vitest'

/** pino writes to the file descriptor itself, so each case runs in a process of its own whose output is read. */
function programOf(code: string, level = 'debug', presentRequest = '() => null'): string[] {
  const logger = new URL('../../../shared/runtime/logger.ts', import.meta.url).href
  const program = `
    const { createLogger } = await import(${JSON.stringify(logger)})
    const log = createLogger({ process: 'test', level: ${JSON.stringify(level)}, presentRequest: ${presentRequest} })
    ${code}`
  return ['--input-type=module', '--eval', program]
}

function logged(...program: Parameters<typeof programOf>): Record<string, unknown>[] {
  return linesOf(execFileSync(process.execPath, programOf(...program), { encoding: 'utf8' }))
}

function linesOf(output: string): Record<string, unknown>[] {
  return output
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

describe('the logger', () => {
  it('writes one JSON object a line with everything that it was told, and drops no line', () => {
    const lines = logged(`
      log.info('an info', { requestId: 'r', jobId: 'j', operation: 'o', method: 'POST', route: '/v1', status: 200 })
      log.warn('a warning', { code: 'c', state: 's', durationMs: 3, deployment: 'd', reason: 'why', count: 4 })
      for (let index = 0; index < 2000; index += 1) log.error('an error', { count: index })`)
    expect(lines).toHaveLength(2002)
    expect(lines[0]).toMatchObject({
      msg: 'an info',
      process: 'test',
      requestId: 'r',
      jobId: 'j',
      operation: 'o',
      method: 'POST',
      route: '/v1',
      status: 200,
    })
    expect(lines[1]).toMatchObject({
      msg: 'a warning',
      code: 'c',
      state: 's',
      durationMs: 3,
      deployment: 'd',
      reason: 'why',
      count: 4,
    })
    expect(lines.at(-1)).toMatchObject({ msg: 'an error', count: 1999, time: expect.stringMatching(/^\d{4}-.*Z$/) })
  })

  it('is quiet below its level, and altogether when silent', () => {
    const code = "log.info('low'); log.error('high')"
    expect(logged(code, 'warn').map(({ msg }) => msg)).toEqual(['high'])
    expect(logged(code, 'silent')).toEqual([])
  })

  it('tells of an error its type, code, first line, frames and causes', () => {
    const [line] = logged(`
      const cause = Object.assign(new TypeError('the cause'), { code: 'ECONNRESET' })
      log.error('failed', { error: new RangeError('the message', { cause }) })`)
    expect(line).toMatchObject({
      error: {
        type: 'RangeError',
        message: 'the message',
        frames: expect.arrayContaining([expect.stringContaining('    at ')]),
        cause: { type: 'TypeError', code: 'ECONNREset'.toUpperCase(), message: 'the cause' },
      },
    })
  })

  it.each([
    [
      'properties that libraries hang on errors',
      `Object.assign(new Error('safe'), {
        query: 'canary', parameters: ['canary'], values: ['canary'], url: 'https://canary', body: { canary: 1 },
        request: { headers: { authorization: 'canary' } }, config: 'canary', detail: 'canary', stdout: 'canary' })`,
    ],
    ['lines after the first one of a message', `new Error('safe\\nURL: https://canary\\nRequest body: canary')`],
    ['lines of a message that look like frames', `new Error('safe\\n    at canary (file:///canary)')`],
    ['the properties of a cause', `new Error('safe', { cause: Object.assign(new Error('safe'), { url: 'canary' }) })`],
    ['the later lines of a cause’s message', `new Error('safe', { cause: new Error('safe\\ncanary') })`],
    ['a cause that is no error', `new Error('safe', { cause: { secret: 'canary' } })`],
    ['a thrown string', `'canary'`],
    ['a thrown object', `({ message: 'canary', stack: 'canary' })`],
    ['the errors inside of an AggregateError', `new AggregateError([new Error('x\\ncanary')], 'safe')`],
    ['a code that is no text', `Object.assign(new Error('safe'), { code: { canary: 1 } })`],
    ['a very long message', `new Error('x'.repeat(300) + 'canary')`],
  ])('never shows %s', (_, expression) => {
    // Frames quote the program itself where it is evaluated, so the canary is put together only when it runs.
    const code = `const error = (0, eval)(atob('${Buffer.from(`(${expression})`).toString('base64')}'))
      log.error('failed', { error })
      log.error('failed again', { error: new Error('outer', { cause: error }) })`
    const lines = logged(code)
    expect(lines).toHaveLength(2)
    expect(JSON.stringify(lines)).not.toContain('canary')
  })

  it('names the request that the present work is for in every line that names none itself', () => {
    const present = "() => ({ requestId: 'present', traceId: 'trace' })"
    const lines = logged("log.info('one'); log.warn('two', { requestId: 'own', count: 1 })", 'debug', present)
    expect(lines.map(({ requestId, traceId }) => [requestId, traceId])).toEqual([
      ['present', 'trace'],
      ['own', 'trace'],
    ])
    const [untraced] = logged("log.info('one')", 'debug', "() => ({ requestId: 'present', traceId: null })")
    expect(untraced).toMatchObject({ requestId: 'present' })
    expect(untraced).not.toHaveProperty('traceId')
    expect(logged("log.info('one')")[0]).not.toHaveProperty('requestId')
  })
})

describe('the last lines before the end', () => {
  const startProcess = new URL('../../../shared/runtime/start-process.ts', import.meta.url).href
  const start = `const { startProcess, StartFailure } = await import(${JSON.stringify(startProcess)})
    await startProcess('test', async () => {
      log.info('the last')
      throw new StartFailure('A_SETTING: unusable')
    })`

  it.each([
    ['of a process that has nothing left to do', "log.info('the last')", 0],
    ['of a process that exits', "log.info('the last'); process.exit(3)", 3],
    ['of a failed start', start, 1],
    ['of a process that something is thrown in', "log.info('the last'); throw new Error('crash')", 1],
    ['of a process that a promise is rejected in', "log.info('the last'); Promise.reject(new Error('crash'))", 1],
  ])('%s are written', (_, code, status) => {
    const ended = spawnSync(process.execPath, programOf(code), { encoding: 'utf8' })
    expect(ended.status).toBe(status)
    expect(linesOf(ended.stdout)).toMatchObject([{ msg: 'the last' }])
  })

  it.each(['warn', 'error'])('with the level %s are written at once, and all others before them', (level) => {
    const code = `log.info('first'); log.${level}('second'); process.kill(process.pid, 'SIGKILL')`
    const ended = spawnSync(process.execPath, programOf(code), { encoding: 'utf8' })
    expect(ended.signal).toBe('SIGKILL')
    expect(linesOf(ended.stdout)).toMatchObject([{ msg: 'first' }, { msg: 'second' }])
  })
})

it('a line is written though no other follows and the process goes on', async () => {
  const running = spawn(process.execPath, programOf("log.info('alone'); setInterval(() => undefined, 60_000)"))
  try {
    const [line] = (await once(createInterface(running.stdout), 'line')) as [string]
    expect(JSON.parse(line)).toMatchObject({ msg: 'alone' })
    expect(running.exitCode).toBeNull()
  } finally {
    running.kill('SIGKILL')
  }
})

it('nobody who listens to the log is no reason to end', async () => {
  const running = spawn(
    process.execPath,
    programOf("setInterval(() => { log.info('unheard'); log.warn('unheard'); console.error('alive') }, 10)"),
  )
  try {
    await once(running.stdout, 'data')
    running.stdout.destroy()
    for (let heard = 0; heard < 5; heard += 1) await once(running.stderr, 'data')
    expect(running.exitCode).toBeNull()
  } finally {
    running.kill('SIGKILL')
  }
})
