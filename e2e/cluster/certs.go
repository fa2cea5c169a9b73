package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files of the API server in the cluster's folder.
const (
	caCert     = "ca.crt"
	serverCert = "server.crt"
	serverKey  = "server.key"
	tokenKey   = "token.key" // signs the tokens of ServiceAccounts
)

// GuestServer is where a QEMU machine of e2e/vm that has the option --api finds the API
// server: at an address of the machine's own network, which leads to the host's loopback.
const (
	GuestServer  = "https://" + guestAddress + ":6443"
	guestAddress = "10.0.2.100"
)

// authority signs certificates for one cluster. Its key is nowhere but here.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := certTemplate(pkix.Name{CommonName: "throw-away cluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{key, cert}, err
}

// pair is a certificate and its key, both PEM.
type pair struct{ cert, key []byte }

// issue signs a certificate for a new key.
func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return pair{cert: encodeCert(der), key: keyPEM}, err
}

// client signs a certificate that makes its holder a user of the API.
func (a *authority) client(u User) (pair, error) {
	template := certTemplate(pkix.Name{CommonName: u.Name, Organization: u.Groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// writeServerFiles writes what the API server needs.
func (a *authority) writeServerFiles(dir string) error {
	template := certTemplate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.ParseIP(guestAddress)}
	server, err := a.issue(template)
	if err != nil {
		return err
	}
	token, err := newKey()
	if err != nil {
		return err
	}
	tokenPEM, err := encodeKey(token)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, caCert), encodeCert(a.cert.Raw), 0o600),
		os.WriteFile(filepath.Join(dir, serverCert), server.cert, 0o600),
		os.WriteFile(filepath.Join(dir, serverKey), server.key, 0o600),
		os.WriteFile(filepath.Join(dir, tokenKey), tokenPEM, 0o600),
	)
}

// certTemplate is a certificate for a day. It is valid from yesterday on: the
// clock of a machine may be behind.
func certTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      subject,
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("new key: %w", err)
	}
	return key, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
