// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// Code that a payer's account delegates to (EIP-7702) and that calls others while its signature is checked. Its
/// storage is the payer's own. Permit2 asks in a static call, so it can report only by what it answers.
contract HostilePayer {
    bytes4 private constant VALID = 0x1626ba7e;

    address private target;
    bytes private data;
    bool private expected;

    /// Accepts every signature if calling `nextTarget` succeeds, or fails, as expected.
    function setCall(address nextTarget, bytes calldata nextData, bool succeeds) external {
        (target, data, expected) = (nextTarget, nextData, succeeds);
    }

    function isValidSignature(bytes32, bytes calldata) external returns (bytes4) {
        (bool succeeds,) = target.call(data);
        return succeeds == expected ? VALID : bytes4(0);
    }

    receive() external payable {}
}
