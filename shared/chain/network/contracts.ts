import { parseAbi } from 'viem'

/** Chain id of Base: the `8453` of `eip155:8453`. */
export const CHAIN_ID = 8453

/** The contracts of eip155:8453 that scheme `upto` uses. */
export const USDC_ADDRESS = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
export const PERMIT2_ADDRESS = '0x000000000022d473030f116ddee9f6b43ac78ba3'
export const UPTO_PROXY_ADDRESS = '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002'
/** Runs several reads at one block. */
export const MULTICALL3_ADDRESS = '0xca11bde05977b3631167028862be2a173976ca11'

export const usdcAbi = parseAbi([
  'function balanceOf(address owner) view returns (uint256)',
  'function allowance(address owner, address spender) view returns (uint256)',
  'function nonces(address owner) view returns (uint256)',
  'function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)',
  'event Transfer(address indexed from, address indexed to, uint256 value)',
  'event Approval(address indexed owner, address indexed spender, uint256 value)',
])

export const permit2Abi = parseAbi(['function nonceBitmap(address owner, uint256 word) view returns (uint256)'])

export const multicall3Abi = parseAbi([
  'function getBlockNumber() view returns (uint256)',
  'function getCurrentBlockTimestamp() view returns (uint256)',
])

/**
 * The keccak256 hash of the settlement contract's runtime code, which is the same in every deployment. A test compares it
 * with the source.
 */
export const SETTLEMENT_CONTRACT_CODE_HASH = '0x9eae16c34380a49590c826e1c720ceca81919787d4084c26b4aecea86543aedf'

/**
 * The operator's settlement contract, `infra/contracts/SettlementContract.sol`. Each settlement is a call of the proxy, or
 * `settleAfterPermit` with the proxy's arguments behind it, with the most gas that it may use.
 */
export const settlementContractAbi = parseAbi([
  'struct Settlement { uint256 gas; bytes call; }',
  'struct Simulation { bool succeeds; bytes4 reason; uint256 codeSize; bytes23 codePrefix; }',
  'function settleMany(Settlement[] settlements) returns (uint256 settled)',
  'function simulateMany(Settlement[] settlements) returns (Simulation[] simulations)',
  'struct Permit { uint256 value; uint256 deadline; bytes32 r; bytes32 s; uint8 v; }',
  'function settleAfterPermit(Permit permit) returns (bool settled)',
  'function isKey(address account) view returns (bool)',
  'function owner() view returns (address)',
  'function proposedOwner() view returns (address)',
  'function setKey(address account, bool isListed)',
  'function proposeOwner(address account)',
  'function acceptOwnership()',
  'event PaymentSettled(address indexed payer, uint256 nonce, uint256 gasUsed)',
  'event PaymentFailed(address indexed payer, uint256 nonce, uint256 gasUsed, bytes4 reason)',
  'event KeyChanged(address indexed account, bool isListed)',
  'event OwnerProposed(address indexed account)',
  'event OwnerChanged(address indexed account)',
  'error NotKey()',
  'error NotOwner()',
  'error TooLittleGas(uint256 position)',
  'error NotASettlement(uint256 position)',
  'error NotThisContract()',
])
