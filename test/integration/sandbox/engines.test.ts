import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { describeEngines, type Engines, findEngines, SIMULATED } from '../../../infra/sandbox/engines.ts'
import { startUpstream } from '../../../infra/sandbox/upstream/server.ts'
import { havePrograms, pathOf } from '../../support/processes/optional-program.ts'

async function serve(status: number, body: string): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end(body))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Runs `work` with a PATH of these programs only. */
async function withPath<T>(programs: readonly string[], work: () => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-path-'))
  const before = process.env['PATH']
  for (const program of programs) await symlink(program, join(folder, program.slice(program.lastIndexOf('/') + 1)))
  process.env['PATH'] = folder
  try {
    return await work()
  } finally {
    process.env['PATH'] = before
    await rm(folder, { recursive: true })
  }
}

function deploymentsWith(engines: Partial<Engines>) {
  const { deployments } = sandboxDeployments({
    upstreamUrl: 'http://vendors',
    apiKeyEnv: 'KEY',
    voices: ['talia'],
    models: [
      { id: 'text', category: 'text_generation' },
      { id: 'image', category: 'image_generation' },
      { id: 'speech', category: 'text_to_speech' },
      { id: 'hearing', category: 'speech_to_text' },
    ],
    engines: { ...SIMULATED, ...engines },
  })
  return (model: string) => deployments.filter(({ serves }) => serves.includes(model))
}

describe('what works behind the sandbox', () => {
  it('is a voice, and simulations of the rest on a bare machine', async () => {
    expect(await withPath([], () => findEngines({}))).toEqual({ ...SIMULATED, voice: 'flite' })
  })

  it.skipIf(!havePrograms('pocketsphinx_continuous'))('hears with pocketsphinx where it is installed', async () => {
    const engines = await withPath([pathOf('pocketsphinx_continuous')], () => findEngines({}))
    expect(engines).toEqual({ ...SIMULATED, voice: 'flite', hearing: 'pocketsphinx' })
  })

  it('is the engine that is named, with the first model that it lists, or the named one', async () => {
    const { url, stop } = await startUpstream()
    onTestFinished(stop)
    const listed = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] }
    const whisper = await serve(404, 'File Not Found')
    const engines = await withPath([], () =>
      findEngines({ TEXT_URL: `${url}/v1/`, IMAGE_URL: url, IMAGE_MODEL: 'mine', HEARING_URL: whisper }),
    )
    expect(engines).toEqual({
      voice: 'flite',
      text: { url: `${url}/v1`, model: listed.data[0]?.id },
      image: { url: `${url}/v1`, model: 'mine' },
      hearing: { url: `${whisper}/v1`, model: 'default' },
    })
  })

  it.each([
    ['nobody listens', { TEXT_URL: 'http://127.0.0.1:9' }, 'TEXT_URL: nothing answers at http://127.0.0.1:9/v1'],
    ['the URL is none', { HEARING_URL: 'whisper' }, 'an http or https URL'],
  ])('is refused when %s', async (_, environment, message) => {
    await expect(findEngines(environment)).rejects.toThrow(message)
  })

  it('serves its models alone: no simulated answer stands in for it', () => {
    const engine = { url: 'http://own/v1', model: 'mine' }
    const simulated = deploymentsWith({})
    expect(simulated('text').map(({ name }) => name)).toEqual(['text', 'open-text'])
    expect(simulated('hearing').map(({ name }) => name)).toEqual(['elevenlabs-transcription', 'open-transcription'])
    for (const [kind, model] of [
      ['text', 'text'],
      ['image', 'image'],
      ['hearing', 'hearing'],
    ] as const) {
      const own = deploymentsWith({ [kind]: engine })
      expect(own(model)).toMatchObject([{ adapter: 'openai-compatible', base_url: engine.url, upstream_model: 'mine' }])
      expect(own(model)[0]).not.toHaveProperty('prices')
    }
    expect(deploymentsWith({ hearing: 'pocketsphinx' })('hearing')).toMatchObject([
      { name: 'pocketsphinx', base_url: 'http://vendors/v1', max_concurrency: expect.any(Number) },
    ])
  })

  it('is told as it is, with the next better one', () => {
    const engine = { url: 'http://own/v1', model: 'mine' }
    const simulated = describeEngines({ ...SIMULATED, voice: 'flite' })
    expect(simulated.voice).toMatch(/^real: flite/)
    expect(simulated.hearing).toMatch(/^simulated: .*pocketsphinx.*HEARING_URL/)
    expect(simulated.text).toMatch(/^simulated: .*TEXT_URL/)
    expect(simulated.images).toMatch(/^simulated: .*IMAGE_URL/)
    expect(describeEngines({ ...SIMULATED, hearing: 'pocketsphinx' }).hearing).toMatch(
      /^real: pocketsphinx, English only, up to 2 min .* of 100 words wrong .*HEARING_URL/,
    )
    expect(describeEngines({ ...SIMULATED, text: engine }).text).toBe('real: your mine at http://own/v1')
  })
})
