#!/bin/sh
# rootfs.sh DIR [ARCH]: makes DIR the root file system of the image, without the
# program itself: iptables of both back ends, modprobe, and the libraries they need,
# of the Debian release that this runs on. Nothing of ARCH is executed, so that any
# Debian host makes the root of any architecture. Needs apt with its package sources.
set -eu
root=$1
arch=${2:-$(dpkg --print-architecture)}

# What is extracted; a test holds that every library that one of them needs is there.
packages='iptables kmod libc6 libip4tc2 libip6tc2 libkmod2 liblzma5 libmnl0
libnetfilter-conntrack3 libnfnetlink0 libnftnl11 libssl3 libxtables12 libzstd1 netbase'

# A package manager's state of its own: the host may be of another architecture.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/debs"
: >"$work/status"
apt() {
	apt-get -q -o APT::Architecture="$arch" -o APT::Architectures::="$arch" \
		-o APT::Sandbox::User=root -o Dir::State="$work" -o Dir::State::status="$work/status" \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work" \
		-o Dir::Cache::archives="$work/archives" "$@"
}
apt update
(cd "$work/debs" && apt download $packages)

mkdir -p "$root"
for deb in "$work"/debs/*.deb; do
	dpkg-deb -x "$deb" "$root"
done

# Licences stay, other texts go, and so do the files of what does not run here.
find "$root/usr/share" -mindepth 1 -maxdepth 1 ! -name doc -exec rm -rf {} +
find "$root/usr/share/doc" -mindepth 1 ! -type d ! -name copyright -delete
find "$root/usr/share/doc" -type d -empty -delete
rm -rf "$root"/usr/lib/*/gconv "$root"/usr/lib/*/audit "$root"/usr/lib/systemd \
	"$root"/lib/systemd "$root"/etc/init.d "$root"/usr/bin "$root"/var "$root"/etc/depmod.d \
	"$root"/usr/sbin/*-apply

# What the packages' scripts would link: nf_tables is Debian's choice. The programs of
# the other back end keep their names of their own.
mkdir -p "$root/usr/bin" "$root/run" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
for family in iptables ip6tables; do
	for kind in '' -save -restore; do
		ln -sf xtables-nft-multi "$root/usr/sbin/$family$kind"
	done
done
