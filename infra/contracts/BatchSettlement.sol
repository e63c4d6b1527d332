// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Settles many payments of x402's "upto" scheme in one transaction.
/// @notice Payers sign this contract's address as the `facilitator` of their authorization, so that only this contract
/// can settle it, and only listed keys can use this contract. It never holds funds: a settlement moves USDC from the
/// payer to the recipient whom the payer signed. Nothing is payable and nothing can be upgraded. An owner changes the
/// list of keys and can do nothing else.
/// @dev There are no immutables: the runtime code, and so its hash, is the same in every deployment.
contract BatchSettlement {
    struct Settlement {
        /// The most gas that this payment may use; it gets exactly that much.
        uint256 gas;
        /// A call of the proxy's `settle` or `settleWithPermit`.
        bytes call;
    }

    struct Simulation {
        bool succeeds;
        /// The first four bytes of what the proxy reverted with; zero when it succeeds or ran out of gas.
        bytes4 reason;
        /// Of the payer's account.
        uint256 codeSize;
        /// With an EIP-7702 delegation, 0xef0100 and the address of the delegate.
        bytes23 codePrefix;
    }

    /// @dev The x402UptoPermit2Proxy, at the same address on every chain.
    address private constant UPTO_PROXY = 0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002;

    bytes4 private constant SETTLE = bytes4(
        keccak256("settle(((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)")
    );
    bytes4 private constant SETTLE_WITH_PERMIT = bytes4(
        keccak256(
            "settleWithPermit((uint256,uint256,bytes32,bytes32,uint8),((address,uint256),uint256,uint256),uint256,address,(address,address,uint256),bytes)"
        )
    );

    /// @dev Words of `settle`'s arguments, the offset of the signature included.
    uint256 private constant SETTLE_WORDS = 10;
    uint256 private constant NONCE_WORD = 2;
    uint256 private constant PAYER_WORD = 5;
    /// @dev The EIP-2612 permit, which precedes the same arguments in `settleWithPermit`.
    uint256 private constant PERMIT_WORDS = 5;

    /// @dev The gas of what surrounds a call: starting it at an account that is not warm yet, and recording its
    /// result: about 5,000.
    uint256 private constant RESERVED_GAS = 10_000;

    /// @notice Whether an account may settle through this contract.
    mapping(address account => bool) public isKey;
    address public owner;
    /// @notice Becomes the owner once it accepts.
    address public proposedOwner;

    /// @dev `gasUsed` includes starting the call, but not this event.
    event PaymentSettled(address indexed payer, uint256 nonce, uint256 gasUsed);
    event PaymentFailed(address indexed payer, uint256 nonce, uint256 gasUsed, bytes4 reason);
    event KeyChanged(address indexed account, bool isListed);
    event OwnerProposed(address indexed account);
    event OwnerChanged(address indexed account);

    error NotKey();
    error NotOwner();
    /// @dev The whole batch fails, instead of a payment for lack of gas that it was promised.
    error TooLittleGas(uint256 position);
    error NotASettlement(uint256 position);

    constructor(address initialOwner, address[] memory keys) {
        if (initialOwner == address(0)) revert NotOwner();
        owner = initialOwner;
        emit OwnerChanged(initialOwner);
        for (uint256 i = 0; i < keys.length; i++) _setKey(keys[i], true);
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotOwner();
        _;
    }

    /// @notice Settles each payment by itself: one that fails has no effect on the others.
    /// @return settled The number of those that succeeded.
    function settleMany(Settlement[] calldata settlements) external returns (uint256 settled) {
        if (!isKey[msg.sender]) revert NotKey();
        for (uint256 position = 0; position < settlements.length; position++) {
            Settlement calldata settlement = settlements[position];
            (address payer, uint256 nonce) = _partiesOf(settlement.call, position);
            uint256 gasBefore = gasleft();
            (bool succeeds, bytes4 reason) = _execute(settlement.gas, settlement.call, position);
            uint256 gasUsed = gasBefore - gasleft();
            if (succeeds) {
                settled++;
                emit PaymentSettled(payer, nonce, gasUsed);
            } else {
                emit PaymentFailed(payer, nonce, gasUsed, reason);
            }
        }
    }

    /// @notice Reports how each settlement would end if it were the only one, for `eth_call` by anyone. Nothing that a
    /// settlement changes remains, whether it is called or sent.
    function simulateMany(Settlement[] calldata settlements) external returns (Simulation[] memory simulations) {
        simulations = new Simulation[](settlements.length);
        for (uint256 position = 0; position < settlements.length; position++) {
            Settlement calldata settlement = settlements[position];
            (address payer,) = _partiesOf(settlement.call, position);
            Simulation memory simulation = simulations[position];
            simulation.codeSize = payer.code.length;
            simulation.codePrefix = _codePrefixOf(payer);
            (simulation.succeeds, simulation.reason) = _simulateAndRevert(settlement, position);
        }
    }

    /// @notice Executes a settlement and always reverts: with the encoded result (a bool and four bytes), or with an
    /// error of this contract.
    /// @dev Open to anyone, since nothing remains of it.
    function simulateOne(Settlement calldata settlement, uint256 position) external {
        _partiesOf(settlement.call, position);
        (bool succeeds, bytes4 reason) = _execute(settlement.gas, settlement.call, position);
        bytes memory result = abi.encode(succeeds, reason);
        assembly ("memory-safe") {
            revert(add(result, 0x20), mload(result))
        }
    }

    function setKey(address account, bool isListed) external onlyOwner {
        _setKey(account, isListed);
    }

    /// @notice Names the next owner; the zero address withdraws the proposal.
    function proposeOwner(address account) external onlyOwner {
        proposedOwner = account;
        emit OwnerProposed(account);
    }

    function acceptOwnership() external {
        if (msg.sender != proposedOwner) revert NotOwner();
        owner = msg.sender;
        proposedOwner = address(0);
        emit OwnerChanged(msg.sender);
    }

    function _setKey(address account, bool isListed) private {
        isKey[account] = isListed;
        emit KeyChanged(account, isListed);
    }

    /// @dev Reads payer and nonce from the call's own bytes, at the positions that its selector gives them.
    function _partiesOf(bytes calldata call, uint256 position) private pure returns (address payer, uint256 nonce) {
        bytes4 selector = bytes4(call);
        uint256 firstWord = selector == SETTLE_WITH_PERMIT ? PERMIT_WORDS : 0;
        bool isSettlement = selector == SETTLE || selector == SETTLE_WITH_PERMIT;
        if (!isSettlement || call.length < 4 + 32 * (firstWord + SETTLE_WORDS)) revert NotASettlement(position);
        payer = address(uint160(_wordOf(call, firstWord + PAYER_WORD)));
        nonce = _wordOf(call, firstWord + NONCE_WORD);
    }

    /// @dev The caller has checked that the call has this word.
    function _wordOf(bytes calldata call, uint256 index) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := calldataload(add(add(call.offset, 4), mul(index, 32)))
        }
    }

    /// @dev Calls the proxy with exactly `gasCap`, of which a call gets no more than 63/64 of what is left. Of what the
    /// proxy returns, only four bytes are ever copied, and each call uses the same memory.
    function _execute(uint256 gasCap, bytes calldata call, uint256 position)
        private
        returns (bool succeeds, bytes4 reason)
    {
        assembly ("memory-safe") {
            calldatacopy(mload(0x40), call.offset, call.length)
        }
        uint256 left = gasleft();
        if (gasCap > left || left - gasCap < left / 64 + RESERVED_GAS) revert TooLittleGas(position);
        address proxy = UPTO_PROXY;
        assembly ("memory-safe") {
            mstore(0, 0)
            succeeds := call(gasCap, proxy, 0, mload(0x40), call.length, 0, 4)
            if iszero(succeeds) { reason := mload(0) }
        }
    }

    function _simulateAndRevert(Settlement calldata settlement, uint256 position)
        private
        returns (bool succeeds, bytes4 reason)
    {
        (, bytes memory result) = address(this).call(abi.encodeCall(this.simulateOne, (settlement, position)));
        // Without a result, the call itself ran out of gas.
        if (result.length == 0) revert TooLittleGas(position);
        if (result.length != 64) {
            assembly ("memory-safe") {
                revert(add(result, 0x20), mload(result))
            }
        }
        return abi.decode(result, (bool, bytes4));
    }

    function _codePrefixOf(address account) private view returns (bytes23 prefix) {
        assembly ("memory-safe") {
            mstore(0, 0)
            extcodecopy(account, 0, 0, 23)
            prefix := mload(0)
        }
    }
}
