import type { Command } from 'commander'
import { getAddress, type Hex, isAddress } from 'viem'
import { z } from 'zod'
import { checkedFlags, type Settings, UsageError } from '../command-line.ts'

/** Adds description and options to the command. */
export function addOptions(command: Command): Command {
  return command
    .description(
      `Deploys the contract through which settlement keys settle many payments in one transaction, or changes who may use
it. Its address follows from its code, owner and keys, whoever deploys it. infra/settlement-contract.md says what it
is. Give either --owner and --keys, --set-key, --propose-owner or --accept-ownership.`,
    )
    .option(
      '--owner <address>',
      'changes the list of keys; better an account that no machine of the service has the key of',
    )
    .option('--keys <address,…>', 'the settlement keys that may use it')
    .option('--salt <hex>', '32 bytes, for another address with the same owner and keys')
    .option('--set-key <address=state>', 'lists or removes a key: ADDRESS=listed or ADDRESS=removed; sent by the owner')
    .option(
      '--propose-owner <address>',
      'names the next owner, who becomes it by --accept-ownership; sent by the owner',
    )
    .option('--accept-ownership', 'sent by the proposed owner')
    .option('--contract <address>', 'the contract to change (default: SETTLEMENT_CONTRACT)')
    .option('--rpc <url>', 'the node (default: the first of RPC_URL)')
    .option('--dry-run', 'check everything and show what would be sent and cost; needs no key')
    .addHelpText(
      'after',
      `
Environment: SENDER_PRIVATE_KEY, the key of the account that sends and pays the gas.

Exit code: 0 when it is done or was done before, 1 when it is refused, 2 on wrong usage or when the node cannot be
reached.`,
    )
}

export type ContractRequest =
  | { readonly action: 'deploy'; readonly owner: Hex; readonly keys: readonly Hex[]; readonly salt: Hex | undefined }
  | { readonly action: 'set-key'; readonly contract: Hex; readonly key: Hex; readonly isListed: boolean }
  | { readonly action: 'propose-owner'; readonly contract: Hex; readonly owner: Hex }
  | { readonly action: 'accept-ownership'; readonly contract: Hex }

export type ContractOptions = ReturnType<typeof readOptions>

const ADDRESS_RULE = 'must be an address: 0x and 40 hexadecimal digits, with the right checksum if it has capitals'

/** Returns the address with its checksum, which protects against typing errors. */
const address = z
  .string()
  .refine((text) => isAddress(text) && BigInt(text) !== 0n, { error: ADDRESS_RULE })
  .transform((text) => getAddress(text))

const addressList = z
  .string()
  .transform((list) => list.split(','))
  .pipe(z.array(address))
  .refine((list) => new Set(list).size === list.length, { error: 'must not name an address twice' })

const keyState = z
  .string()
  .transform((text) => text.split('='))
  .pipe(z.tuple([address, z.enum(['listed', 'removed'], { error: 'must be ADDRESS=listed or ADDRESS=removed' })]))

const word = /^0x[0-9a-fA-F]{64}$/
const isWord = (text: string): text is Hex => word.test(text)

const optionsSchema = z.object({
  owner: address.optional(),
  keys: addressList.optional(),
  salt: z.string().refine(isWord, { error: 'must be 0x and 64 hexadecimal digits' }).optional(),
  setKey: keyState.optional(),
  proposeOwner: address.optional(),
  acceptOwnership: z.boolean().default(false),
  contract: address.optional(),
  rpc: z.url({ protocol: /^https?$/, error: 'must be an http(s) URL' }),
  dryRun: z.boolean().default(false),
})

/** Reads options and settings. Throws `UsageError`. */
export function readOptions(flags: unknown, settings: Settings) {
  const options = checkedFlags(optionsSchema, {
    rpc: settings['RPC_URL']?.split(',')[0] ?? '',
    contract: settings['SETTLEMENT_CONTRACT'] || undefined,
    ...z.record(z.string(), z.unknown()).parse(flags),
  })
  const request = requestOf(options)
  const { rpc: rpcUrl, dryRun: isDryRun } = options
  return { request, rpcUrl, isDryRun, senderKey: readSenderKey(settings['SENDER_PRIVATE_KEY'], isDryRun) }
}

/** Returns `null` only for a dry run. */
function readSenderKey(value: string | undefined, isDryRun: boolean): Hex | null {
  if (value === undefined || value === '') {
    if (isDryRun) return null
    throw new UsageError('SENDER_PRIVATE_KEY is not set; --dry-run needs none')
  }
  // The value itself must not be printed.
  if (!isWord(value)) throw new UsageError('SENDER_PRIVATE_KEY must be 0x and 64 hexadecimal digits')
  return value
}

function requestOf(options: z.infer<typeof optionsSchema>): ContractRequest {
  const { owner, keys, salt, contract, setKey: key, proposeOwner: proposed } = options
  const wanted = [
    owner !== undefined || keys !== undefined,
    key !== undefined,
    proposed !== undefined,
    options.acceptOwnership,
  ]
  if (wanted.filter(Boolean).length !== 1)
    throw new UsageError('Give either --owner and --keys, --set-key, --propose-owner or --accept-ownership')
  if (owner !== undefined || keys !== undefined) {
    if (owner === undefined || keys === undefined) throw new UsageError('A deployment needs both --owner and --keys')
    return { action: 'deploy', owner, keys, salt }
  }
  if (contract === undefined) throw new UsageError('Name the contract with --contract or SETTLEMENT_CONTRACT')
  if (key !== undefined) return { action: 'set-key', contract, key: key[0], isListed: key[1] === 'listed' }
  if (proposed !== undefined) return { action: 'propose-owner', contract, owner: proposed }
  return { action: 'accept-ownership', contract }
}
