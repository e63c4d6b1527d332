// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

/// Code that a payer's account runs or delegates to (EIP-7702), or asks as owner or handler, in the ways that a hostile
/// one would use. Its storage is that of the account which runs it.
contract Delegate {
    bytes4 private constant VALID = 0x1626ba7e;
    bytes4 private constant VALID_FOR_EARLIER_SAFES = 0x20c13b0b;

    uint256 private mode;
    uint256 private parameter;

    /// 0: accepts everything; 1: accepts only with more than `parameter` gas; 2: reverts with `parameter` bytes;
    /// 3: uses all the gas; 4: accepts in a simulation at block `parameter` and before.
    function setMode(uint256 nextMode, uint256 nextParameter) external {
        mode = nextMode;
        parameter = nextParameter;
    }

    /// Safes before 1.5.0 ask owners that are contracts with the text in place of its hash.
    function isValidSignature(bytes calldata, bytes calldata) external view returns (bytes4) {
        judge();
        return VALID_FOR_EARLIER_SAFES;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        judge();
        return VALID;
    }

    function judge() private view {
        uint256 length = parameter;
        if (mode == 1 && gasleft() <= length) burn();
        if (mode == 2) assembly { revert(0, length) }
        if (mode == 3) burn();
        if (mode == 4 && block.number > length) burn();
    }

    function burn() private pure {
        assembly { invalid() }
    }

    receive() external payable {}
}
