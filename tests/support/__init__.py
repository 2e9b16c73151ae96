"""What tests share: one clock, stand-ins that keep the contract of what they stand for, servers, samples. Imports no test."""
