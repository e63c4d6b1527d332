import { randomBytes } from 'node:crypto'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import {
  createSandboxAccount,
  fundSettlementAccount,
  type SandboxAccount,
} from '../../../infra/sandbox/chain/fund-devnet.ts'
import { sandboxDeployments, UPSTREAM_KEY } from '../../../infra/sandbox/deployments.ts'
import type { Engine } from './engine.ts'
import type { OuterServices } from './outer-services.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** What the proxy has a certificate for without asking anyone. */
export const PUBLIC_BASE_URL = 'https://localhost'
export const BUCKET = 'farebox-media'

const secret = (bytes = 32) => randomBytes(bytes).toString('hex')

/** What an operator writes down: the accounts, and the lines of .env. */
export interface OperatorSettings {
  readonly payTo: `0x${string}`
  readonly settlementAddress: `0x${string}`
  readonly contract: `0x${string}`
  readonly env: Readonly<Record<string, string>>
}

/**
 * Deploys the settlement contract with the image, as infra/README.md shows, and fills in the templates of .env and
 * providers.env beside docker-compose.yml.
 */
export async function writeSettings(
  engine: Engine,
  outer: OuterServices,
  directory: string,
  image: string,
): Promise<OperatorSettings> {
  const [owner, settlement, sender] = [createSandboxAccount(), createSandboxAccount(), createSandboxAccount()]
  for (const { address } of [settlement, sender]) await fundSettlementAccount(outer.localRpcUrl, address)
  const contract = await deployContract(engine, outer, image, { owner, settlement, sender })
  const chosen: Record<string, string> = {
    PUBLIC_BASE_URL,
    RPC_URL: outer.rpcUrl,
    PAY_TO: owner.address,
    FACILITATOR_ADDRESSES: settlement.address,
    SETTLEMENT_CONTRACT: contract,
    SETTLEMENT_PRIVATE_KEYS: settlement.privateKey,
    RECEIPT_SECRETS: `k1:${secret()}`,
    RECEIPT_SECRET_ID: 'k1',
    RECEIPT_SIGNING_KEY: `k1:${secret()}`,
    S3_ACCESS_KEY_ID: secret(8),
    ALERT_RECEIVERS: 'webhook',
    ALERT_WEBHOOK_URL: outer.webhookUrl,
    ALERT_HEARTBEAT_URL: outer.webhookUrl,
  }
  const template = parseEnv(await readFile(join(ROOT, 'infra/compose/example.env'), 'utf8'))
  const empty = Object.keys(template).filter((name) => template[name] === '')
  const env = { ...template, ...Object.fromEntries(empty.map((name) => [name, secret()])), ...chosen } as Record<
    string,
    string
  >
  await cp(join(ROOT, 'docker-compose.yml'), join(directory, 'docker-compose.yml'))
  await mkdir(join(directory, 'infra'), { recursive: true })
  for (const name of ['compose', 'prometheus', 'alertmanager', 'grafana'])
    await cp(join(ROOT, 'infra', name), join(directory, 'infra', name), { recursive: true })
  await writeFile(join(directory, '.env'), render(env))
  await writeFile(join(directory, 'providers.env'), render({ [UPSTREAM_KEY]: outer.upstreamKey }))
  const deployments = sandboxDeployments({
    upstreamUrl: outer.upstreamUrl,
    apiKeyEnv: UPSTREAM_KEY,
    models: publishedCatalog.models,
    voices: publishedCatalog.voices.map(({ id }) => id),
  })
  await writeFile(join(directory, 'deployments.json'), JSON.stringify(deployments, null, 2))
  return { payTo: owner.address, settlementAddress: settlement.address, contract, env }
}

interface Accounts {
  readonly owner: SandboxAccount
  readonly settlement: SandboxAccount
  readonly sender: SandboxAccount
}

async function deployContract(
  engine: Engine,
  outer: OuterServices,
  image: string,
  { owner, settlement, sender }: Accounts,
): Promise<`0x${string}`> {
  const command = 'infra/commands/deploy-settlement-contract/main.ts'
  const key = ['--env', `SENDER_PRIVATE_KEY=${sender.privateKey}`]
  const terms = ['--owner', owner.address, '--keys', settlement.address, '--rpc', outer.rpcUrl]
  const output = await engine.podman('run', '--rm', '--network', outer.network, ...key, image, command, ...terms)
  const [, contract] = /SETTLEMENT_CONTRACT=(0x[0-9a-fA-F]{40})/.exec(output) ?? []
  if (contract === undefined) throw new Error(`no address of the contract: ${output}`)
  return contract as `0x${string}`
}

function render(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}
