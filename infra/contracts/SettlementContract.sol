// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Settles many payments of x402's "upto" scheme in one transaction.
/// @notice Payers sign this contract's address as the `facilitator` of their authorization, so that only this contract
/// can settle it, and only listed keys can use this contract. It never holds funds: a settlement moves USDC from the
/// payer to the recipient whom the payer signed. Nothing is payable and nothing can be upgraded. An owner changes the
/// list of keys and can do nothing else.
/// @dev There are no immutables: the runtime code, and so its hash, is the same in every deployment.
contract SettlementContract {
    struct Settlement {
        /// The most gas that this payment may use; it gets exactly that much.
        uint256 gas;
        /// A call of the proxy's `settle` or `settleWithPermit`, or of this contract's `settleAfterPermit`.
        bytes call;
    }

    /// An EIP-2612 permit for Permit2, in the order of the proxy's `settleWithPermit`.
    struct Permit {
        uint256 value;
        uint256 deadline;
        bytes32 r;
        bytes32 s;
        uint8 v;
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
    address private constant PERMIT2 = 0x000000000022D473030F116dDEE9F6B43aC78BA3;

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
    uint256 private constant TOKEN_WORD = 0;
    uint256 private constant NONCE_WORD = 2;
    uint256 private constant AMOUNT_WORD = 4;
    uint256 private constant PAYER_WORD = 5;
    /// @dev The EIP-2612 permit, which precedes the same arguments in `settleWithPermit` and `settleAfterPermit`.
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
    error NotThisContract();

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
            (address target, address payer, uint256 nonce) = _read(settlement.call, position);
            uint256 gasBefore = gasleft();
            (bool succeeds, bytes4 reason) = _execute(target, settlement, position);
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
            (, address payer,) = _read(settlement.call, position);
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
        (address target,,) = _read(settlement.call, position);
        (bool succeeds, bytes4 reason) = _execute(target, settlement, position);
        bytes memory result = abi.encode(succeeds, reason);
        assembly ("memory-safe") {
            revert(add(result, 0x20), mload(result))
        }
    }

    /// @notice Settles a payment whose permit may be for more than its maximum, and so for later payments too. The permit
    /// is submitted only while the allowance is below the amount: payments may share one, and the first of them submits
    /// it. A permit that fails, since it was submitted before, does not fail the payment. What fails leaves no permit.
    /// @dev For calls by this contract. Behind the permit are the arguments of the proxy's `settle`, exactly as there.
    /// Reverts with the first four bytes of the proxy's reason.
    /// @return settled Distinguishes a success from a call of an account without code.
    function settleAfterPermit(Permit calldata permit) external returns (bool settled) {
        if (msg.sender != address(this)) revert NotThisContract();
        bytes calldata call = msg.data[32 * PERMIT_WORDS:];
        address token = address(uint160(_wordOf(call, TOKEN_WORD)));
        address payer = address(uint160(_wordOf(call, PAYER_WORD)));
        if (_allowanceOf(token, payer) < _wordOf(call, AMOUNT_WORD)) _submit(token, payer, permit);
        (bytes4 selector, address proxy) = (SETTLE, UPTO_PROXY);
        assembly ("memory-safe") {
            let copy := mload(0x40)
            mstore(copy, selector)
            calldatacopy(add(copy, 4), add(call.offset, 4), sub(call.length, 4))
            mstore(0, 0)
            settled := call(gas(), proxy, 0, copy, call.length, 0, 4)
            if iszero(settled) { revert(0, 4) }
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

    /// @dev Says whom to call, and reads payer and nonce from the call's own bytes, at the positions that its selector
    /// gives them.
    function _read(bytes calldata call, uint256 position)
        private
        view
        returns (address target, address payer, uint256 nonce)
    {
        bytes4 selector = bytes4(call);
        uint256 firstWord = 0;
        target = UPTO_PROXY;
        if (selector != SETTLE) {
            firstWord = PERMIT_WORDS;
            if (selector == this.settleAfterPermit.selector) target = address(this);
            else if (selector != SETTLE_WITH_PERMIT) revert NotASettlement(position);
        }
        if (call.length < 4 + 32 * (firstWord + SETTLE_WORDS)) revert NotASettlement(position);
        payer = address(uint160(_wordOf(call, firstWord + PAYER_WORD)));
        nonce = _wordOf(call, firstWord + NONCE_WORD);
    }

    /// @dev The caller has checked that the call has this word.
    function _wordOf(bytes calldata call, uint256 index) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := calldataload(add(add(call.offset, 4), mul(index, 32)))
        }
    }

    /// @dev Without memory that grows: what the token returns is never copied beyond one word.
    function _allowanceOf(address token, address payer) private view returns (uint256 allowance) {
        bytes memory question = abi.encodeWithSignature("allowance(address,address)", payer, PERMIT2);
        assembly ("memory-safe") {
            mstore(0, 0)
            pop(staticcall(gas(), token, add(question, 0x20), mload(question), 0, 0x20))
            allowance := mload(0)
        }
    }

    /// @dev Whether the permit was accepted shows in the transfer.
    function _submit(address token, address payer, Permit calldata permit) private {
        bytes memory submission = abi.encodeWithSignature(
            "permit(address,address,uint256,uint256,uint8,bytes32,bytes32)",
            payer,
            PERMIT2,
            permit.value,
            permit.deadline,
            permit.v,
            permit.r,
            permit.s
        );
        assembly ("memory-safe") {
            pop(call(gas(), token, 0, add(submission, 0x20), mload(submission), 0, 0))
        }
    }

    /// @dev Calls the proxy with exactly `gasCap`, of which a call gets no more than 63/64 of what is left; or this contract,
    /// which then calls the token and the proxy within it. Of what is returned, only four bytes are ever copied, and each
    /// call uses the same memory.
    function _execute(address target, Settlement calldata settlement, uint256 position)
        private
        returns (bool succeeds, bytes4 reason)
    {
        (uint256 gasCap, bytes calldata call) = (settlement.gas, settlement.call);
        assembly ("memory-safe") {
            calldatacopy(mload(0x40), call.offset, call.length)
        }
        uint256 left = gasleft();
        if (gasCap > left || left - gasCap < left / 64 + RESERVED_GAS) revert TooLittleGas(position);
        assembly ("memory-safe") {
            mstore(0, 0)
            succeeds := call(gasCap, target, 0, mload(0x40), call.length, 0, 4)
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
