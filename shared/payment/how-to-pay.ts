/**
 * What makes a client able to pay that only has the scheme `exact` or speaks x402 v1: shown in every 402 and with the
 * refusal of what such a client signed.
 */
export const HOW_TO_PAY =
  "Two lines make @x402/fetch or @x402/axios (x402 v2) able to pay: import { UptoEvmScheme } from '@x402/evm/upto/client'; client.register('eip155:8453', new UptoEvmScheme(account, { rpcUrl }))"
