// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// A token that calls another contract, and may change state, while Permit2 moves it or a permit is submitted to it.
contract HostileToken {
    address private target;
    bytes private data;

    event Called(bool succeeds, bytes answer);

    function setCall(address nextTarget, bytes calldata nextData) external {
        (target, data) = (nextTarget, nextData);
    }

    function permit(address, address, uint256, uint256, uint8, bytes32, bytes32) external {
        (bool succeeds, bytes memory answer) = target.call(data);
        emit Called(succeeds, answer);
    }

    function transferFrom(address, address, uint256) external returns (bool) {
        (bool succeeds, bytes memory answer) = target.call(data);
        emit Called(succeeds, answer);
        return true;
    }
}
