import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type CallToolResult, Client, type ClientOptions, type Progress } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { createPayer, type PayerOptions } from '../payer/payer.ts'
import { COMPILE_CACHE } from '../processes/run-program.ts'

const COMMAND = fileURLToPath(new URL('../../../client/command/main.ts', import.meta.url))

/** The revisions of the protocol that differ: with `initialize`, and with an envelope on each request. */
export const ERAS = ['2025', '2026-07-28'] as const
export type Era = (typeof ERAS)[number]

export interface ServerSettings {
  readonly baseUrl?: string | undefined
  readonly rpcUrl?: string | undefined
  readonly privateKey?: string | undefined
  readonly home: string
}

export interface ClientSettings {
  readonly era?: Era
  readonly args?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly client?: ClientOptions
  /** A module to load before the server. */
  readonly preload?: string
}

export interface LocalServer {
  readonly client: Client
  readonly pid: number
  /** Resolves when the server has ended. */
  readonly ended: Promise<void>
  readonly call: (name: string, args?: Record<string, unknown>, options?: CallSettings) => Promise<CallToolResult>
  /** What it wrote to standard error. */
  readonly errors: () => string
  readonly close: () => Promise<void>
}

interface CallSettings {
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: Progress) => void
}

/** A call may wait for a settlement on a slow machine. */
const LONGEST_CALL_MS = 240_000

/** Returns the program and its arguments that start the server from its sources. */
export function serverCommand({ args = [], preload }: ClientSettings = {}): readonly [string, readonly string[]] {
  return [process.execPath, [...(preload === undefined ? [] : ['--import', preload]), COMMAND, 'mcp', ...args]]
}

/** Returns the environment of the server. Of this process's it gets only PATH. */
export function serverEnvironment({ baseUrl, rpcUrl, privateKey, home }: ServerSettings): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    NODE_COMPILE_CACHE: COMPILE_CACHE,
    FAREBOX_HOME: home,
    ...(baseUrl === undefined ? {} : { FAREBOX_URL: baseUrl }),
    ...(rpcUrl === undefined ? {} : { FAREBOX_RPC_URL: rpcUrl }),
    ...(privateKey === undefined ? {} : { FAREBOX_PRIVATE_KEY: privateKey }),
  }
}

/** Starts `farebox mcp` as a process and connects the official client to it. */
export async function startLocalServer(settings: ServerSettings, options: ClientSettings = {}): Promise<LocalServer> {
  const [command, args] = serverCommand(options)
  const env = { ...serverEnvironment(settings), ...options.environment }
  const transport = new StdioClientTransport({ command, args: [...args], env, stderr: 'pipe' })
  let errors = ''
  transport.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk.toString('utf8')
  })
  const negotiation =
    options.era === '2026-07-28' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } as const } : {}
  const client = new Client({ name: 'test', version: '1' }, { ...negotiation, ...options.client })
  await client.connect(transport)
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  Object.assign(client, { onclose: end })
  return {
    client,
    pid: transport.pid ?? 0,
    ended,
    call: async (name, given = {}, callOptions = {}) =>
      await client.callTool(
        { name, arguments: given },
        { timeout: LONGEST_CALL_MS, resetTimeoutOnProgress: true, ...callOptions },
      ),
    errors: () => errors,
    close: async () => await client.close(),
  }
}

/** A wallet with a home of its own, whose servers are started one after the other or at once. */
export interface ServerWallet extends ServerSettings {
  readonly address: string
  /** Returns what the wallet has paid since it was created, in atomic USDC. */
  paid(): Promise<bigint>
  remove(): Promise<void>
}

interface WalletPlace {
  readonly info: { readonly baseUrl: string; readonly rpcUrl: string }
  readonly chain: { usdcBalance(address: `0x${string}`): Promise<bigint> }
}

const FUNDS = 100_000_000n

/** Creates an approved wallet with 100 USDC, and a home. */
export async function createServerWallet(
  { info, chain }: WalletPlace,
  { usdcAtomic = FUNDS, approved = true }: PayerOptions = {},
): Promise<ServerWallet> {
  const payer = await createPayer(info.rpcUrl, { usdcAtomic, approved })
  const folder = await mkdtemp(join(tmpdir(), 'farebox-mcp-'))
  return {
    baseUrl: info.baseUrl,
    rpcUrl: info.rpcUrl,
    privateKey: payer.privateKey,
    home: join(folder, 'home'),
    address: payer.address,
    paid: async () => usdcAtomic - (await chain.usdcBalance(payer.address)),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
